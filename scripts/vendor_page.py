"""Join preact, its hooks, signals and htm into the one module the page uses: localrag/serve/static/vendor/preact.js.

Run it when one of them is to be updated; it needs npm. The packages are fetched into a temporary folder, where npm checks their
hashes, and esbuild joins them without shrinking anything. Signals and htm are joined from their source; of preact its own build is
taken, since signals reaches into it by the names that build gives.
"""

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "localrag/serve/static/vendor"
VERSIONS = {"preact": "11.2.0", "@preact/signals": "2.11.4", "@preact/signals-core": "1.14.5", "htm": "3.1.1"}
JOINER = ("@esbuild/linux-x64", "0.28.2")
ENTRY = """
export { h, render, Fragment } from "preact";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { h } from "preact";
import htm from "htm";
export const html = htm.bind(h);
"""
FROM = {
    "preact": "dist/preact.mjs",
    "preact/hooks": "hooks/dist/hooks.mjs",
    "@preact/signals": "src/index.ts",
    "@preact/signals-core": "src/index.ts",
    "htm": "src/index.mjs",
}


def fetch(name: str, version: str, folder: Path) -> Path:
    """A package of the npm registry, unpacked."""
    packed = subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], cwd=folder, check=True, capture_output=True, text=True)
    target = folder / "packages" / name
    with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
        archive.extractall(target, filter="data")
    return target / "package"


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        places = {name: fetch(name, version, folder) for name, version in VERSIONS.items()}
        esbuild = fetch(*JOINER, folder) / "bin" / "esbuild"
        entry = folder / "entry.js"
        entry.write_text(ENTRY, encoding="utf-8")
        aliases = [f"--alias:{name}={places[name.removesuffix('/hooks')] / path}" for name, path in sorted(FROM.items(), reverse=True)]
        options = ["--bundle", "--format=esm", "--target=es2022", "--charset=utf8", *aliases]
        bundled = subprocess.run([str(esbuild), str(entry), *options], check=True, capture_output=True, text=True).stdout
        licences = [f"{name} {VERSIONS[name]}\n\n{(place / 'LICENSE').read_text().strip()}\n" for name, place in places.items()]
    used = ", ".join(f"{name} {version}" for name, version in VERSIONS.items())
    text = f"// Made by scripts/vendor_page.py from {used}. Licences: LICENSE beside this file.\n{bundled}"
    text = text.replace(made, "").replace("../", "")
    (TARGET / "preact.js").write_text(text, encoding="utf-8")
    (TARGET / "LICENSE").write_text(("\n" + "-" * 80 + "\n\n").join(licences), encoding="utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()
    (TARGET / "SHA256").write_text(f"{digest}  preact.js\n", encoding="utf-8")


if __name__ == "__main__":
    main()
