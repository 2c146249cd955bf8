"""Run by the Python of LibreOffice: fill a document with formulas, calculate it, and print what its cells show.

usage: office_session.py SOCKET PLAN.json     PLAN: {"cells": {"A1": "=..."}, "basic": path or null, "save": path}
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

import uno
from com.sun.star.beans import PropertyValue


def value(name: str, content: object) -> PropertyValue:
    found = PropertyValue()
    found.Name, found.Value = name, content
    return found


def desktop(socket: str) -> object:
    local = uno.getComponentContext()
    resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
    for _ in range(240):
        try:
            remote = resolver.resolve(f"uno:pipe,name={socket};urp;StarOffice.ComponentContext")
            return remote.ServiceManager.createInstanceWithContext("com.sun.star.frame.Desktop", remote)
        except Exception:
            time.sleep(0.25)
    raise SystemExit("LibreOffice did not answer")


def main() -> None:
    socket, plan = sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    office = desktop(socket)
    trusted = (value("Hidden", True), value("MacroExecutionMode", 4), value("UpdateDocMode", 3))
    document = office.loadComponentFromURL("private:factory/scalc", "_blank", 0, trusted)
    if plan["basic"]:
        libraries = document.BasicLibraries
        if not libraries.hasByName("Standard"):
            libraries.createLibrary("Standard")
        libraries.getByName("Standard").insertByName("Gpu", Path(plan["basic"]).read_text(encoding="utf-8"))
    sheet = document.Sheets.getByIndex(0)
    for name, formula in plan["cells"].items():
        sheet.getCellRangeByName(name).setFormula(formula)
    if plan["save"]:  # as a person has it: written, closed, opened again, links updated, calculated
        url = uno.systemPathToFileUrl(plan["save"])
        document.storeToURL(url, (value("FilterName", "calc8"),))
        document.close(True)
        document = office.loadComponentFromURL(url, "_blank", 0, trusted)
        sheet = document.Sheets.getByIndex(0)
    started = time.monotonic()
    document.calculateAll()
    seconds = time.monotonic() - started
    shown = {}
    for name in plan["cells"]:
        cell = sheet.getCellRangeByName(name)
        kind = cell.FormulaResultType2
        shown[name] = cell.Value if kind == 1 else cell.String
    print(json.dumps({"cells": shown, "seconds": seconds}))
    document.close(True)
    with contextlib.suppress(Exception):
        office.terminate()


main()
