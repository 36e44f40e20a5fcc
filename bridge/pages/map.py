"""The pages by address."""

from werkzeug import Response

from bridge.pages import runs, tables
from bridge.pages.site import HEADERS, Site, Visit
from evaluation.report.pages.render import ASSETS, asset

SITE = Site()


def _asset(visit: Visit, name: str) -> Response:
    del visit
    headers = {**HEADERS, "Cache-Control": "private, max-age=31536000, immutable"}
    return Response(asset(name), 200, headers, content_type=ASSETS[name])


def _answered_before(visit: Visit) -> Response:
    """Entering, leaving and the language are the site's own; here they only have their addresses."""
    return visit.send_on("start")


SITE.add("start", "/", runs.start)
SITE.add("enter", "/enter", _answered_before, "POST")
SITE.add("leave", "/leave", _answered_before, "POST")
SITE.add("language", "/language", _answered_before, "POST")
SITE.add("asset", f"/assets/<any({', '.join(repr(name) for name in ASSETS)}):name>", _asset)
SITE.add("runs", "/runs/<base>", runs.runs)
SITE.add("tables", "/tables", tables.tables)
SITE.add("take", "/tables/take", tables.take, "POST")
SITE.add("table", "/tables/<base>", tables.table)
SITE.add("table_upload", "/tables/<base>/upload", tables.upload, "POST")
SITE.add("table_switch", "/tables/<base>/state", tables.switch, "POST")
SITE.add("table_restore", "/tables/<base>/restore", tables.restore, "POST")
SITE.add("table_row", "/tables/<base>/rows/<row>", tables.edit)
SITE.add("table_save", "/tables/<base>/rows/<row>", tables.save, "POST")
SITE.add("table_download", "/tables/<base>/download.<any(xlsx, csv, json):ending>", tables.download)
SITE.add("run", "/runs/<base>/<int:number>", runs.run)
SITE.add("row", "/runs/<base>/<int:number>/rows/<key>", runs.row)
SITE.add("compare", "/runs/<base>/<int:number>/against/<int:other>", runs.compare_runs)
SITE.add("download", "/runs/<base>/<int:number>/download.<any(html, xlsx, csv, json):ending>", runs.download)
