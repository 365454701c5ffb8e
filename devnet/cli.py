"""`isthmus demo` and `isthmus faucet`: the local chains."""

import click

_URL_HELP = "As the demo prints it."


@click.command()
@click.option("--once", is_flag=True, help="Play, verify, stop.")
@click.option("--seed", type=int, default=7, show_default=True, help="Decides amounts and rates.")
@click.option("--keep", is_flag=True, help="Leave the embedded Postgres running at the end.")
def demo(*, once: bool, seed: int, keep: bool) -> int:
    """Run the whole system on local chains.

    It plays a scenario, verifies it, and runs on until Ctrl-C. Every demo begins from nothing: new
    chains, new databases; those of an earlier one are dropped. ISTHMUS_HOME moves its folder,
    DATABASE_URL its databases. 1 if anything is wrong, 2 for a wrong setting.
    """
    from indexer.config.settings import load_settings
    from indexer.errors import ConfigurationError

    try:
        # Before the imports: keys of the devnet follow from a setting.
        settings = load_settings()
    except ConfigurationError as error:
        click.echo(f"{type(error).__name__}: {error}")
        return 2
    from devnet.demo import run

    return run(settings, once=once, seed=seed, keep=keep)


@click.command()
@click.argument("address", required=False)
@click.option("--new", is_flag=True, help="Make a key on each chain.")
@click.option(
    "--amount",
    type=click.IntRange(1, 1_000_000),
    default=100,
    show_default=True,
    help="Whole tokens of each kind.",
)
@click.option("--evm", default="http://127.0.0.1:8545", show_default=True, help=_URL_HELP)
@click.option("--stellar", default="http://127.0.0.1:8000", show_default=True, help=_URL_HELP)
def faucet(address: str | None, *, new: bool, amount: int, evm: str, stellar: str) -> int:
    """Pay test money to an address on the chains of a demo that runs.

    0x…: ether, USDC and USDT0. G…: the account, and USDC and USDT0 where it trusts them. `--new`: a
    new key on each chain, with all of that, as `export NAME=…` for a shell.
    """
    if new == (address is not None):
        raise click.UsageError("name an address, or --new")
    from indexer.config.settings import devnet_passphrase
    from indexer.errors import ConfigurationError

    try:
        devnet_passphrase()
    except ConfigurationError as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        return 2
    from devnet.faucet import pay

    return pay(address, amount, evm, stellar)
