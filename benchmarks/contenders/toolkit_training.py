"""Child of train_peers.py: a toolkit's own command on a configuration, and the speed that its own log reports.

Runs in the environment of the toolkit and needs nothing but Python.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Target tokens a second of every interval that the toolkit logged, and its highest resident memory."""
    configuration = Path(job["configuration"])
    # JSON is YAML, which both toolkits read
    configuration.write_text(json.dumps(job["settings"]), encoding="utf-8")
    command = [sys.executable, "-m", *job["command"], str(configuration), *job["after"]]
    done = subprocess.run(
        command, cwd=configuration.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    rates = [float(rate) for rate in re.findall(job["pattern"], done.stdout)]
    if done.returncode or not rates:
        end = "\n".join(done.stdout.split("\n")[-20:])
        sys.exit(f"{end}\n{job['package']} ended with exit code {done.returncode} and logged no speed")
    return {
        "tokens_per_second": rates,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
        "versions": {name: importlib.metadata.version(name) for name in ("torch", job["package"])},
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
