"""Checks of the nodes that `ISTHMUS_RPC_<CHAIN>` names."""

import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from sqlalchemy.exc import SQLAlchemyError

from indexer.chains.http.operators import MIN_OPERATORS, http_urls, operator_of
from indexer.config.networks import Chain, EvmChain
from indexer.config.settings import Settings
from indexer.config.warehouse import open_engine
from indexer.doctor.checks import CheckGroup, CheckResult, DoctorContext
from indexer.doctor.evm_nodes import EvmNodeChecks, check_tags, check_web_socket
from indexer.doctor.node_checks import (
    AGREEMENT,
    ANSWERS,
    CHAIN_ID,
    CLOCK,
    FINALITY,
    HEALTHY,
    HISTORY,
    LOGS,
    OPERATORS,
    PROTOCOL,
    TOO_YOUNG,
    VERSION,
    WEB_SOCKET,
)
from indexer.doctor.stellar_nodes import StellarNodeChecks
from indexer.errors import ConfigurationError, IndexerError
from indexer.facts.cursors import read_cursor
from warehouse_schema.identifiers import ChainId, Height

_THREADS = 8


def check_nodes(context: DoctorContext) -> Iterator[CheckResult]:
    """Check every node of every followed chain, several chains at a time.

    Chains without a node of use are put into `context.unreadable`.
    """
    cursors = _stored_heights(context.settings)
    with ThreadPoolExecutor(_THREADS) as threads:

        def check(chain: Chain) -> list[CheckResult]:
            stored = cursors.get(chain.id)
            start = chain.first_height if stored is None else Height(stored + 1)
            return list(_check_chain(context, chain, start))

        for results in threads.map(check, context.settings.followed):
            yield from results


def _stored_heights(settings: Settings) -> Mapping[ChainId, Height]:
    """Height of each cursor; none where the warehouse cannot be read, of which another group tells.

    Reading then starts where it would on an empty warehouse.
    """
    try:
        engine = open_engine(settings, "indexer", pool_size=1)
    except ConfigurationError:
        return {}
    try:
        with engine.connect() as conn:
            found = {chain.id: read_cursor(conn, chain.id) for chain in settings.followed}
    except SQLAlchemyError:
        return {}
    finally:
        engine.dispose()
    return {chain: cursor.height for chain, cursor in found.items() if cursor is not None}


def _check_chain(context: DoctorContext, chain: Chain, start: Height) -> Iterator[CheckResult]:
    urls = context.settings.nodes[chain.id]
    named = http_urls(urls)
    if not named:
        problem = f"none of its URLs begins with http(s)://, from which {chain.id} is read"
        yield ANSWERS.failed(chain.id, problem, "Add the node's http(s) URL.")
    if isinstance(chain, EvmChain):
        evm_nodes = [EvmNodeChecks(chain, url, start) for url in named]
        for node in evm_nodes:
            yield from node.run(context)
        yield from check_tags(evm_nodes)
        for url in urls:
            if url not in named:
                yield check_web_socket(context, chain, url)
        yield _check_operators(context, chain, named)
        yield from _check_agreement(context, chain, evm_nodes)
    else:
        has_lake = chain.id in context.settings.lakes
        stellar_nodes = [StellarNodeChecks(chain, url, start, has_lake) for url in named]
        for stellar_node in stellar_nodes:
            yield from stellar_node.run(context)
        yield from _check_agreement(context, chain, stellar_nodes)


def _check_operators(context: DoctorContext, chain: EvmChain, urls: Sequence[str]) -> CheckResult:
    """Whether there are two operators where two must agree, and two that are not one machine."""
    operators = sorted({operator_of(url) for url in urls})
    reasons = []
    if context.settings.network.name != "devnet":
        reasons.append("what owners submit on a public network")
    if chain.log_proof in ("header", "operators"):
        reasons.append(f"logs, as its log_proof is {chain.log_proof}")
    if reasons and len(operators) < MIN_OPERATORS:
        problem = (
            f"nodes of {MIN_OPERATORS} operators have to agree on {' and on '.join(reasons)}; "
            f"named: {', '.join(operators) or 'none'}"
        )
        return OPERATORS.failed(chain.id, problem)
    hosts_by_address = defaultdict[frozenset[str], set[str]](set)
    for url in urls:
        hosts_by_address[_addresses(url)].add(operator_of(url))
    for addresses, hosts in hosts_by_address.items():
        if addresses and len(hosts) > 1:
            problem = (
                f"{' and '.join(sorted(hosts))} count as two operators and have one address, "
                f"{', '.join(sorted(addresses))}"
            )
            return OPERATORS.failed(chain.id, problem)
    return OPERATORS.ok(chain.id, ", ".join(operators))


def _addresses(url: str) -> frozenset[str]:
    """IP addresses of a URL's host; none when it has none, which is the node's finding."""
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, None, family=socket.AF_INET)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for *_, address in found)


def _check_agreement(
    context: DoctorContext,
    chain: Chain,
    nodes: Sequence[EvmNodeChecks | StellarNodeChecks],
) -> Iterator[CheckResult]:
    """Whether all nodes of use have the same block, so deep that no reorg changes it."""
    heads = [node.head.height for node in nodes if node.head is not None]
    if not heads:
        context.unreadable.add(chain.id)
        return
    height = Height(min(heads) - chain.confirmations)
    if len(heads) == 1 or height < 0:
        return
    context.begin(AGREEMENT.id, chain.id)
    found: dict[str, list[str]] = {}
    for node in nodes:
        if node.head is None:
            continue
        try:
            found.setdefault(node.block_hash(height), []).append(node.subject)
        except IndexerError as error:
            yield AGREEMENT.failed(node.subject, f"no block {height}: {error}", TOO_YOUNG)
            return
    if len(found) == 1:
        yield AGREEMENT.ok(chain.id, f"block {height} is {next(iter(found))}")
        return
    parts = [f"{block_hash} at {', '.join(hosts)}" for block_hash, hosts in found.items()]
    yield AGREEMENT.failed(chain.id, f"block {height} is {'; '.join(parts)}")


GROUP = CheckGroup(
    (
        *(ANSWERS, CHAIN_ID, HEALTHY, VERSION, PROTOCOL, CLOCK, HISTORY, LOGS, FINALITY),
        *(WEB_SOCKET, OPERATORS, AGREEMENT),
    ),
    check_nodes,
)
