"""`isthmus relay …`, `isthmus webhooks` and `isthmus webhook-key`."""

import click

from indexer.cli.base import operator_command


@click.group()
def relay() -> None:
    """Send the service's own transactions, in the one process that has keys."""


@relay.command()
@operator_command
def run() -> int:
    """Send what is owed until interrupted."""
    from relay import commands

    return commands.run()


@relay.command()
@operator_command
def status() -> int:
    """Show each account and its problems; 1 if there are any."""
    from relay import commands

    return commands.status()


@relay.command()
@click.argument("chain")
@operator_command
def resume(chain: str) -> int:
    """Resume the halted accounts of a chain, and try again what failed too often there."""
    from relay import commands

    return commands.resume(chain)


@relay.command("reset-failures")
@click.argument("chain")
@click.argument("transfer", required=False)
@operator_command
def reset_failures(chain: str, transfer: str | None) -> int:
    """Try again what failed too often on a chain, of one transfer or of all; no halted account."""
    from relay import commands

    return commands.reset_failures(chain, transfer)


@relay.command()
@click.argument("transfer")
@click.option(
    "--token", help="Contract of a token, or `native`; default: the token of the transfer."
)
@operator_command
def refund(transfer: str, token: str | None) -> int:
    """Send back what a transfer's deposit address holds, however little it is."""
    from relay import commands

    return commands.refund(transfer, token)


@click.command()
@operator_command
def webhooks() -> int:
    """Send webhooks until interrupted."""
    from relay import commands

    return commands.webhooks()


@click.command()
@operator_command
def webhook_key() -> int:
    """Print the public key that webhooks are verified with."""
    from relay import commands

    return commands.webhook_key()
