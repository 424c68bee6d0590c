"""Install a package by argostranslate's own Python and translate lines with it; in the environment of the client.

Reads one JSON object from standard input, `{"package": PATH, "from": "en", "to": "fr", "lines": [...]}`, and writes the
translations as a JSON list on the last line of standard output.
"""

import json
import sys

from argostranslate import package, translate

job = json.load(sys.stdin)
package.install_from_path(job["package"])
(installed,) = package.get_installed_packages()
print(json.dumps([translate.translate(line, job["from"], job["to"]) for line in job["lines"]]))
