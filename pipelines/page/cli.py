"""`isthmus page`: Dagster's page behind the guard."""

import click


@click.command()
@click.option("-w", "--workspace", "workspaces", multiple=True, required=True, metavar="FILE")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, default=3000, show_default=True)
def page(workspaces: tuple[str, ...], host: str, port: int) -> int:
    """Serve Dagster's page until interrupted; 2 for a wrong setting."""
    from indexer.config.settings import export_dagster_variables
    from indexer.errors import ConfigurationError
    from pipelines.page.settings import load_page_settings
    from warehouse_schema.configuration import explain

    try:
        settings = load_page_settings(host, port)
        export_dagster_variables()
    except ConfigurationError as error:
        click.echo(explain(error), err=True)
        return 2
    from pipelines.page.server import serve

    serve(settings, list(workspaces))
    return 0
