"""The plugin whose calls may end after one second, and whose apps must answer within three."""

from dify_plugin import DifyPluginEnv, Plugin

from bridge import app
from evaluation.runs import runner

app.SHORTEST_SECONDS = 1
runner.APP_SECONDS = 3.0
runner.SPARE_SECONDS = 0.2

if __name__ == "__main__":
    Plugin(DifyPluginEnv(MAX_REQUEST_TIMEOUT=600)).run()
