"""`isthmus api`: serves the API."""

import click


@click.command()
@click.option("--bind", default="127.0.0.1:8080", show_default=True, help="HOST:PORT, or unix:PATH")
@click.option("--workers", type=int, help="Processes of 8 threads each; default: one a core.")
def api(bind: str, workers: int | None) -> int:
    """Serve the API until interrupted; 2 for a wrong setting."""
    from api.server import default_workers, serve
    from indexer.cli.base import print_error
    from indexer.config.settings import log_format
    from indexer.errors import ConfigurationError
    from indexer.logs import configure_logging
    from warehouse_schema.configuration import explain

    configure_logging("api", log_format())
    try:
        serve("api.wsgi:app", bind=bind, workers=default_workers() if workers is None else workers)
    except ConfigurationError as error:
        print_error(f"isthmus api: {explain(error)}")
        return 2
    return 0
