"""``sttau data``: the public data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import DownloadColumn

from sttau.cli.common import ProgressBars, plain_errors, print_line, print_table

app = typer.Typer(help="List, describe, download and verify data sets.")

NameArgument = Annotated[str, typer.Argument(help="Name of the data set; see sttau data list.")]


@app.command("list")
def list_all() -> None:
    """List all data sets, their sizes, and whether they are on this machine.

    Example: sttau data list
    """
    from sttau.data import DATASETS, SPLITS

    rows = []
    for name, entry in DATASETS.items():
        sizes = (f"{entry.source.sizes[split]:,}" if split in entry.source.sizes else "" for split in SPLITS)
        rows.append([name, *sizes, _location(name, brief=True)])
    print_table(["name", *SPLITS, "location"], rows, align="l" + "r" * len(SPLITS) + "l")
    print_line("sttau data get NAME downloads a data set; sttau data info NAME shows its terms.")


@app.command()
def info(name: NameArgument) -> None:
    """Show title, sizes, license, citation, origin and location of a data set.

    Example: sttau data info bih
    """
    from sttau.data.registry import find_entry

    with plain_errors():
        source = find_entry(name).source
        print_line(f"{name}: {source.title}", style="bold")
        print_line("Sizes:    " + ", ".join(f"{split} {size:,}" for split, size in source.sizes.items()))
        print_line(f"License:  {source.license}")
        print_line(f"Cite:     {source.citation}")
        if source.homepage:
            print_line(f"Homepage: {source.homepage}")
        for form in source.forms:
            files = ", ".join(form.files[:3]) + (", …" if len(form.files) > 3 else "")
            print_line(f"Read from {form.about}: {files}")
            for url in form.urls:
                print_line(f"          {url}")
        if source.content:
            print_line(f"SHA-256 of the content: {source.content}")
        if source.by_hand:
            print_line(source.by_hand)
        print_line(f"Location: {_location(name)}")


@app.command()
def get(
    name: NameArgument,
    path: Annotated[Path | None, typer.Option(help="File or folder to read instead of a download.")] = None,
) -> None:
    """Find or download a data set, verify its checksum, and prepare it for fast loading.

    Example: sttau data get imdb
    """
    from sttau.data.registry import find_entry, load
    from sttau.data.source import fetch, is_prepared

    with plain_errors(), ProgressBars("downloading", DownloadColumn()) as bars:
        entry = find_entry(name)
        for source in entry.needs:
            if not is_prepared(source):
                fetch(source, progress=bars.update)
        if entry.source.forms:
            if path is not None or not is_prepared(entry.source):
                fetch(entry.source, path, bars.update)
            data = load(name, "test", path=path)
        else:
            data = load(name, "test")
    print_line(f"{name} is ready and was verified: {_location(name)}", style="green")
    print_line(data.provenance)


def _location(name: str, brief: bool = False) -> str:
    """Return where the files of a data set are."""
    from sttau.data import DATASETS
    from sttau.data.source import cache_folder, data_folders, find, is_prepared

    source = DATASETS[name].source
    if not source.forms:
        return "included in sttau"
    found = find(source, data_folders())
    if found is not None:
        path = found[1][0]
        return ("in the cache" if path.is_relative_to(cache_folder()) else "in $STTAU_DATA") if brief else str(path)
    if is_prepared(source):
        return "in the cache" if brief else "prepared in the cache"
    if not any(form.urls for form in source.forms):
        return "needs an account"
    return "not downloaded" if brief else f"not downloaded; run sttau data get {name}"
