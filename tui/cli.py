"""The `cgtop` command. Nothing heavy is imported before a command is chosen: no torch ever, Textual and Rich late."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..core.settings import Dtype
from .commands.failures import Exit, told
from .commands.options import BenchMode, RunOptions, StrategyChoice, env_name, takes_run_options

REFRESH_HZ = 10.0

app = typer.Typer(
    name="cgtop",
    help="Shows, live and exactly, what CUDA Graphs do to GPU memory and decode speed.",
    epilog="Exit codes: 0 fine, 1 a run failed, 2 wrong usage, 3 no usable device, 128+n signal n.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Json = Annotated[bool, typer.Option("--json", help="Write the events as JSON Lines.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Write the report in Markdown, to paste.")]
Once = Annotated[bool, typer.Option("--once", help="Write the report instead of opening the screen.")]
Debug = Annotated[bool, typer.Option("--debug", envvar=env_name("debug"), help="Show the traceback of an error.")]
Refresh = Annotated[
    float,
    typer.Option("--refresh", metavar="HZ", min=0.1, max=10, envvar=env_name("refresh"), help="Redraws a second."),
]


def main() -> None:
    """Entry point: like any program, survive a locale that cannot write Δ, and a standard stream that is closed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # what is written there is lost, as for any program
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - for as long as the program runs
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app(prog_name="cgtop")


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"cgtop {version('cgtop')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
@takes_run_options
def cgtop(
    run: RunOptions,
    context: typer.Context,
    once: Once = False,
    json: Json = False,
    markdown: Markdown = False,
    refresh: Refresh = REFRESH_HZ,
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Shows, live and exactly, what CUDA Graphs do to GPU memory and decode speed.

    Without a command: the screen, live on an NVIDIA GPU or on the --device named, else a recorded GPU run. Without a
    terminal, or with --once: the report on standard output.
    """
    if context.invoked_subcommand is not None:
        _refuse_options_before(context)
        return
    from .commands.output import chosen
    from .commands.top import top

    with told(run.debug):
        top(run, chosen(json=json, markdown=markdown), once=once, refresh_hz=refresh)


@app.command(short_help="Run all phases without a screen and report.")
@takes_run_options
def phases(run: RunOptions, json: Json = False, markdown: Markdown = False) -> None:
    """Run all phases without a screen; write the phase table, and what each Δ is made of."""
    from .commands.output import chosen
    from .commands.phases import phases as run_phases

    with told(run.debug):
        run_phases(run, chosen(json=json, markdown=markdown))


@app.command(short_help="Compare the speeds of the decode modes.")
@takes_run_options
def bench(
    run: RunOptions,
    mode: Annotated[
        BenchMode | None,
        typer.Option(
            "--mode", help="What is compared: both is eager and graph.", show_default="both; on a CPU eager and dynamic"
        ),
    ] = None,
    tokens: Annotated[int, typer.Option("--tokens", min=1, metavar="N", help="Steps of a mode in a round.")] = 64,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            min=1,
            metavar="N",
            help="How many rounds, each of all modes.",
            show_default="until known to 1 %, or for 45 s",
        ),
    ] = None,
    json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Compare decode modes: interleaved at a steady clock, with intervals, bandwidth and what held the card down."""
    from .commands.bench import bench as run_bench
    from .commands.output import chosen

    with told(run.debug):
        run_bench(run, chosen(json=json, markdown=markdown), mode=mode, tokens=tokens, rounds=rounds)


@app.command(short_help="Check a machine: one verdict a line.")
@takes_run_options
def check(
    run: RunOptions,
    strict: Annotated[bool, typer.Option("--strict", help="Other processes on the GPU are a failure.")] = False,
    json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Check this machine: bytes, graph, bandwidth, errors, company; one verdict a line. Exits 1 where one fails."""
    from .commands.check import check as run_check
    from .commands.output import chosen

    with told(run.debug):
        run_check(run, chosen(json=json, markdown=markdown), strict=strict)


@app.command(short_help="Measure a graph at several cache lengths.")
@takes_run_options
def scaling(
    run: RunOptions,
    cache_lens: Annotated[
        str | None, typer.Option(metavar="N,N…", help="Cache lengths.", show_default="256,512,1024,2048,4096")
    ] = None,
    json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Measure what a StaticCache and its graph add at several cache lengths: bytes, speed, the line through them."""
    from .commands.output import chosen
    from .commands.scaling import scaling as run_scaling

    with told(run.debug):
        run_scaling(run, chosen(json=json, markdown=markdown), cache_lens=cache_lens)


@app.command(short_help="Measure graphs of several batch sizes.")
@takes_run_options
def batches(
    run: RunOptions,
    batch_sizes: Annotated[
        str | None, typer.Option(metavar="N,N…", help="Batch sizes.", show_default="1,2,4,8,16")
    ] = None,
    strategy: Annotated[StrategyChoice, typer.Option(help="How they are served.")] = "all",
    json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Measure what graphs of several batch sizes cost and how fast they are, by each way of serving them."""
    from .commands.batches import batches as run_batches
    from .commands.output import chosen

    with told(run.debug):
        run_batches(run, chosen(json=json, markdown=markdown), batch_sizes=batch_sizes, strategy=strategy)


@app.command(short_help="Play a recording, or report it.")
def play(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recording.", exists=True, dir_okay=False)],
    once: Once = False,
    json: Json = False,
    markdown: Markdown = False,
    speed: Annotated[float, typer.Option(min=0.1, max=100, metavar="X", help="Times the recorded speed.")] = 1.0,
    refresh: Refresh = REFRESH_HZ,
    debug: Debug = False,
) -> None:
    """Play a recording on the screen; without a terminal or with a form of output named, write the report."""
    from .commands.output import chosen
    from .commands.play import play as play_file
    from .commands.top import has_screen

    with told(debug):
        on_screen = has_screen() and not (once or json or markdown)
        play_file(file, chosen(json=json, markdown=markdown), on_screen=on_screen, speed=speed, refresh_hz=refresh)


@app.command(short_help="Show versions, device and what works here.")
def doctor(
    json: Annotated[bool, typer.Option("--json", help="Write the findings as JSON.")] = False, debug: Debug = False
) -> None:
    """Show versions and device, and what works here and why not."""
    from .commands.doctor import doctor as run_doctor

    with told(debug):
        run_doctor(as_json=json)


@app.command(short_help="Say what a model would need and what fits; needs no GPU.")
def plan(
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="A preset, a config.json or a checkpoint folder.")
    ],
    gpu_memory: Annotated[str | None, typer.Option(metavar="SIZE", help="The device's memory, as 24GiB.")] = None,
    cache_lens: Annotated[str, typer.Option(metavar="N,N…", help="Cache lengths.")] = "256,512,1024,2048,4096",
    batch_sizes: Annotated[str, typer.Option(metavar="N,N…", help="Batch sizes.")] = "1",
    prompt_len: Annotated[int, typer.Option(metavar="TOKENS", help="Prompt length.")] = 32,
    dtype: Annotated[Dtype, typer.Option(help="Of weights and cache; auto: the model's own.")] = "auto",
    capability: Annotated[str | None, typer.Option(metavar="X.Y", help="Compute capability, as 8.6.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Write the plan as JSON.")] = False,
    markdown: Markdown = False,
    debug: Debug = False,
) -> None:
    """Say what a model would need: weights, StaticCache and the rest, each computed or taken from a recording."""
    from .commands.output import chosen
    from .commands.plan import plan as make_plan

    with told(debug):
        make_plan(
            model,
            chosen(json=json, markdown=markdown),
            dtype=dtype,
            gpu_memory=gpu_memory,
            capability=capability,
            cache_lens=cache_lens,
            batch_sizes=batch_sizes,
            prompt_len=prompt_len,
        )


@app.command(short_help="Judge every statement of the guide by what was measured.")
@takes_run_options
def claims(
    run: RunOptions,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]…", help="Recordings that complete each other.", exists=True, dir_okay=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One run only: no sweeps, no fewer warmups, not the guide's streams.")
    ] = False,
    json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Judge every statement of the guide: holds, does not hold, holds for another reason, or was not measured.

    By the recordings named; without one by a live run on an NVIDIA GPU or on the --device named, else by the recorded
    runs that come with cgtop.
    """
    from .commands.claims import claims as judge
    from .commands.output import chosen

    with told(run.debug):
        judge(files or [], run, chosen(json=json, markdown=markdown), quick=quick)


def _refuse_options_before(context: typer.Context) -> None:
    """An option before a command would be lost without a word: refuse it."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            command = context.invoked_subcommand
            typer.echo(f"Options go after the command: cgtop {command} --{name.replace('_', '-')} …", err=True)
            raise typer.Exit(int(Exit.WRONG_USAGE))


if __name__ == "__main__":
    main()
