"""Ask `dikkat serve` through Weblate's own services, without Weblate's database.

python weblate_machinery.py URL [SOURCE TARGET], by default from English to French.
"""

import os
import sys

import django
from weblate import settings_test

settings_test.DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
settings_test.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
os.environ["DJANGO_SETTINGS_MODULE"] = "weblate.settings_test"
django.setup()

from weblate.machinery.deepl import DeepLTranslation  # noqa: E402
from weblate.machinery.libretranslate import LibreTranslateTranslation  # noqa: E402

url, *languages = sys.argv[1:]
languages = languages or ["en", "fr"]
SERVICES = (
    (LibreTranslateTranslation, {"url": f"{url}/", "key": ""}, languages),
    (DeepLTranslation, {"url": f"{url}/v2/", "key": "any"}, [code.upper() for code in languages]),
)
for service, settings, codes in SERVICES:
    machine = service(settings)
    mark = machine.format_replacement(19, 23, "", None)
    text = f"The small dog sees {mark} in the garden."
    translations = machine.download_multiple_translations(*codes, [(text, None)])
    print(machine.name, machine.is_supported(*codes), translations[text][0]["text"])
