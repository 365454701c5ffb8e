"""`isthmus page`: Dagster's page behind the guard."""

import click


@click.command()
@click.option("-w", "--workspace", "workspaces", multiple=True, required=True, metavar="FILE")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, default=3000, show_default=True)
def page(workspaces: tuple[str, ...], host: str, port: int) -> int:
    """Serve Dagster's page until interrupted; 2 for a wrong setting."""
    from indexer.cli.base import print_error
    from indexer.config.settings import export_dagster_variables, log_format
    from indexer.errors import ConfigurationError
    from indexer.logs import configure_logging
    from pipelines.page.settings import load_page_settings
    from warehouse_schema.configuration import explain

    if log_format() == "json":
        # Text lines are uvicorn's and Dagster's, under handlers of their own.
        configure_logging("page", "json")
    try:
        settings = load_page_settings(host, port)
        export_dagster_variables()
    except ConfigurationError as error:
        print_error(explain(error))
        return 2
    from pipelines.page.server import serve

    serve(settings, list(workspaces))
    return 0
