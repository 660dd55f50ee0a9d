"""`localrag worker`: this machine works for an index on another one."""

import sys
from typing import Annotated

import typer

PORT = 6379


def worker_command(
    ray: Annotated[
        str, typer.Option("--ray", metavar="HOST:PORT", help="The Ray cluster to join. With --head, where to start one: :PORT or IP:PORT.")
    ] = "",
    head: Annotated[
        bool,
        typer.Option("--head", help="Start a cluster on this machine, whose index the others are to work for. Prints what to do next."),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="HOST", help="Allow the cluster of this host to use this machine. Repeatable."),
    ] = None,
) -> None:
    """Work for an index on another machine until Ctrl-C (needs localrag[ray]; Linux)."""
    import asyncio

    from localrag.cli.views.console import say
    from localrag.errors import LocalragError, UsageError
    from localrag.index.crew import cluster
    from localrag.index.crew.ray_node import run_node

    if not ray and not head:
        raise UsageError("Which cluster?", f"Join one: localrag worker --ray HOST:{PORT}. Start one here: localrag worker --head")
    if head:
        token = cluster.make_token()
        host, port = cluster.split_address(ray or f":{PORT}", head=True)
        address = f"{host or cluster.own_address()}:{port}"
        told = (
            f"Head: {address}\nToken: {token}\nCopy the token's file to ~/.ray/auth_token of each other machine (mode 600), and there:\n"
            f"  RAY_AUTH_MODE=token localrag worker --ray {address} --allow-host {address.rpartition(':')[0]}\nThen, here:\n"
            f"  RAY_AUTH_MODE=token localrag index DOCUMENTS --ray {address} --allow-host IP …\nCtrl-C ends."
        )
    else:
        cluster.check_token()
        host, _ = cluster.split_address(ray)
        if not cluster.is_allowed(host, allow_host or ()):
            raise UsageError(
                f"Whoever runs the cluster at {host} can run programs on this machine.", f"If that is what you want: --allow-host {host}"
            )
        if not asyncio.run(cluster.answers(ray)):
            raise UsageError(f"No Ray cluster answers at {ray}.", f"Start one on that machine: localrag worker --head --ray {ray}")
        address, told = ray, f"This machine works for the cluster at {ray}. Ctrl-C ends."
    code = run_node(address, head=head, ready=lambda: say(told))
    if code:
        sys.stderr.flush()
        raise LocalragError(
            f"Ray has ended here (exit code {code}).", f"Is there a cluster at {address}, with this token and these versions?"
        )
