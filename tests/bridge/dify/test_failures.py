"""Why a model call failed, told from the recorded texts of the daemon and from what providers really write."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridge.dify.failures import failure, innermost, refused_parameter, retry_after
from evaluation.errors import Reason

DATA = Path(__file__).parents[2] / "data"
RECORDED = json.loads((DATA / "wire/judge_errors.json").read_text("utf-8"))
REPORTED = json.loads((DATA / "reports/26_quota_used_up/errors.json").read_text("utf-8"))
OF_RECORDED = {
    "[status=429]": Reason.RATE_LIMITED,
    "[status=500]": Reason.MODEL_UNAVAILABLE,
    "[status=503]": Reason.MODEL_UNAVAILABLE,
    "[status=400]": Reason.CONTEXT_TOO_LONG,
    "[status=401]": Reason.MODEL_UNAUTHORIZED,
    "[status=404]": Reason.MODEL_NOT_FOUND,
    "[cut]": Reason.MODEL_UNAVAILABLE,
    "[noreply]": Reason.MODEL_UNAVAILABLE,
    "[html]": Reason.MODEL_UNAVAILABLE,
}


def from_dify(message: str, status: int = 400) -> str:
    """The text of the exception for what Dify's API answers to the daemon."""
    body = json.dumps({"code": "invalid_param", "message": message, "status": status})
    return f"invoke llm model failed: request failed with status code: {status} and respond with: {body}\n"


def from_plugin(message: str, kind: str = "InvokeError", request: str = "4290503aa1") -> str:
    """The same for what a model plugin raised."""
    body = json.dumps({"args": {"description": message}, "error_type": kind, "message": message})
    return from_dify(f"req_id: {request} PluginInvokeError: {body}")


def openai(status: int, message: str, kind: str = "invalid_request_error", code: str | None = None) -> str:
    error = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return f"[models] Bad Request Error, Error code: {status} - {error}"


def compatible(status: int, body: Any) -> str:
    return f"[models] Error: API request failed with status code {status}: {json.dumps(body)}"


def anthropic(status: int, kind: str, message: str) -> str:
    error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011C429"}
    return f"[models] Error: Error code: {status} - {error}"


def google(status: int, name: str, message: str) -> str:
    return f"{status} {name}. {{'error': {{'code': {status}, 'message': '{message}', 'status': '{name}'}}}}"


def test_every_recorded_text_is_tested() -> None:
    assert set(RECORDED) == set(OF_RECORDED)


@pytest.mark.parametrize("case", RECORDED)
def test_recorded_text_of_the_daemon(case: str) -> None:
    error = failure(RECORDED[case]["data"]["message"])
    assert error.reason is OF_RECORDED[case]
    assert error.retry_after == (20.0 if case == "[status=429]" else None)


def test_innermost_message_and_its_type_are_found() -> None:
    assert innermost(from_plugin("[models] x", "InvokeRateLimitError")) == ("[models] x", "InvokeRateLimitError")
    assert innermost(from_dify("[models] y")) == ("[models] y", "")
    assert innermost("z") == ("z", "")
    assert innermost("request failed with status code: 400 and respond with: {broken")[0].endswith("{broken")
    assert innermost("PluginInvokeError: {broken}") == ("PluginInvokeError: {broken}", "")
    assert innermost("PluginInvokeError: {}") == ("PluginInvokeError: {}", "")


RATE_LIMITED = [
    (
        openai(
            429,
            "Rate limit reached for gpt-4o-mini in organization org-a on tokens per min (TPM): Limit 200000, "
            "Used 198503, Requested 2429. Please try again in 336ms.",
            "tokens",
            "rate_limit_exceeded",
        ),
        0.336,
    ),
    (
        openai(
            429,
            "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-08-01-preview have "
            "exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after 22 seconds.",
        ),
        22.0,
    ),
    (
        anthropic(
            429, "rate_limit_error", "This request would exceed your account's rate limit. Please try again later."
        ),
        None,
    ),
    (
        google(
            429, "RESOURCE_EXHAUSTED", "You exceeded your current quota. Please retry in 46.75s. See the documentation."
        ),
        46.75,
    ),
    ("Resource exhausted. Please try again later.", None),
    (
        (
            'Rate limit exceeded (429). Response: {"status_code": 429, "request_id": "4ab3-503", "code": '
            '"Throttling.RateQuota", "message": "Requests rate limit exceeded, please try again later."}'
        ),
        None,
    ),
    (
        (
            "Failed to invoke model qwen-max, status code: 429, error code: Throttling.AllocationQuota, "
            "message: Allocated quota exceeded, please increase your quota limit."
        ),
        None,
    ),
    (compatible(429, {"error_msg": "The throttling threshold has been reached: policy ip over ratelimit"}), None),
    (
        (
            "[models] Rate Limit Error, An error occurred (ThrottlingException) when calling the Converse operation "
            "(reached max retries: 4): Too many requests, please wait before trying again."
        ),
        None,
    ),
    ("[models] Rate Limit Error, ", None),
    (
        "[models] Bad Request Error, 429 Client Error: Too Many Requests for url: http://192.168.0.9:11434/api/embed",
        None,
    ),
    (compatible(400, {"message": "Rate limit reached for requests"}), None),
    ("... 429 ... rate limit", None),
]
CONTEXT_TOO_LONG = [
    openai(400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9503 tokens."),
    openai(
        429,
        "Request too large for gpt-4o in organization org-a on tokens per min (TPM): Limit 30000, Requested 30601. "
        "The input or output tokens must be reduced in order to run successfully.",
        "tokens",
        "rate_limit_exceeded",
    ),
    anthropic(400, "invalid_request_error", "prompt is too long: 210429 tokens > 200000 maximum"),
    anthropic(
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length",
    ),
    google(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
    ),
    openai(400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),
    (
        "Failed to invoke model qwen-turbo, status code: 400, error code: InvalidParameter, "
        "message: Range of input length should be [1, 129024]"
    ),
    compatible(
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing the context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 14429,
                "n_ctx": 8192,
            }
        },
    ),
    compatible(500, {"error": {"code": 500, "message": "the request exceeds the available context size."}}),
    compatible(400, {"error": "Requested tokens (2285) exceed context window of 2048"}),
    compatible(400, {"message": "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."}),
    "An error occurred (ValidationException) when calling the Converse operation: Input is too long for the model.",
    "[models] Bad Request Error, 413 Client Error: Payload Too Large for url: http://10.0.0.5/v1",
]
OTHERS = [
    (openai(500, "The server had an error while processing your request.", "server_error"), Reason.MODEL_UNAVAILABLE),
    (anthropic(529, "overloaded_error", "Overloaded"), Reason.MODEL_UNAVAILABLE),
    (
        "{'type': 'error', 'error': {'details': None, 'type': 'overloaded_error', 'message': 'Overloaded'}}",
        Reason.MODEL_UNAVAILABLE,
    ),
    (google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), Reason.MODEL_UNAVAILABLE),
    (compatible(503, {"error": {"code": 503, "message": "Loading model"}}), Reason.MODEL_UNAVAILABLE),
    (
        (
            "[models] Connection Error, HTTPConnectionPool(host='192.168.0.5', port=11434): Max retries exceeded with: "
            "http://192.168.0.5:11434/api/chat (Caused by NewConnectionError('Connection refused'))"
        ),
        Reason.MODEL_UNAVAILABLE,
    ),
    (
        "[models] Connection Error, HTTPSConnectionPool(host='a.example', port=443): Read timed out. (timeout=300)",
        Reason.MODEL_UNAVAILABLE,
    ),
    ("[models] Error: connect to http://404.example:500 failed: Connection reset by peer", Reason.MODEL_UNAVAILABLE),
    (
        "Failed to invoke model qwen-turbo-2025-04-28, status code: 503, error code: ServiceUnavailable",
        Reason.MODEL_UNAVAILABLE,
    ),
    (
        openai(401, "Incorrect API key provided: sk-abc.", "invalid_request_error", "invalid_api_key"),
        Reason.MODEL_UNAUTHORIZED,
    ),
    (anthropic(401, "authentication_error", "invalid x-api-key"), Reason.MODEL_UNAUTHORIZED),
    (google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), Reason.MODEL_UNAUTHORIZED),
    (google(403, "PERMISSION_DENIED", "Permission denied on resource project x."), Reason.MODEL_UNAUTHORIZED),
    ("Model gpt-4o credentials is not initialized.", Reason.MODEL_UNAUTHORIZED),
    (
        "An error occurred (AccessDeniedException) when calling the Converse operation: You don't have access to it.",
        Reason.MODEL_UNAUTHORIZED,
    ),
    (
        openai(404, "The model `gpt-x` does not exist or you do not have access to it.", code="model_not_found"),
        Reason.MODEL_NOT_FOUND,
    ),
    (
        openai(404, "The API deployment for this resource does not exist.", code="DeploymentNotFound"),
        Reason.MODEL_NOT_FOUND,
    ),
    (google(404, "NOT_FOUND", "models/gemini-x is not found for API version v1beta"), Reason.MODEL_NOT_FOUND),
    (compatible(404, {"error": "model 'qwen3' not found, try pulling it first"}), Reason.MODEL_NOT_FOUND),
    (
        "Failed to invoke model x, status code: 400, error code: InvalidParameter, message: Model not exist.",
        Reason.MODEL_NOT_FOUND,
    ),
    ("Provider langgenius/openai/openai does not exist.", Reason.MODEL_NOT_FOUND),
    ("Model gpt-429 not exist", Reason.MODEL_NOT_FOUND),
    (
        openai(
            400,
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            code="content_filter",
        ),
        Reason.JUDGE_REFUSED,
    ),
    (
        openai(400, "Input data may contain inappropriate content.", code="data_inspection_failed"),
        Reason.JUDGE_REFUSED,
    ),
    (openai(400, "Invalid schema for response_format 'x'."), Reason.MODEL_ERROR),
    (compatible(501, {"error": "not implemented"}), Reason.MODEL_ERROR),
    ("[models] Connection Error, SSLError: certificate verify failed: self-signed certificate", Reason.MODEL_ERROR),
    ("The model is unavailable in your region", Reason.MODEL_ERROR),
    ("[models] Error: 'choices'", Reason.MODEL_ERROR),
    ("", Reason.MODEL_ERROR),
    ("invocation exited without response", Reason.TIMEOUT),
    ("killed by timeout", Reason.TIMEOUT),
    ("Failed to parse response: 1 validation error for LLMResultChunk", Reason.JUDGE_UNPARSEABLE),
]


USED_UP = [
    *(compatible(status, body) for status, body in REPORTED.values()),
    openai(429, "You exceeded your current quota, please check your plan and billing details.", "insufficient_quota"),
    openai(400, "Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"),
    openai(429, "Your account is not active, please check your billing details on our website.", "billing_not_active"),
    openai(
        429,
        "Rate limit reached for gpt-4o in organization org-a on requests per day (RPD): Limit 200, Used 200, "
        "Requested 1. Please try again in 7m12s.",
        "requests",
        "rate_limit_exceeded",
    ),
    anthropic(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
    ),
    anthropic(400, "invalid_request_error", "You have reached your specified API usage limits."),
    google(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: "
        "generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0, model: gemini-2.5-pro",
    ),
    # The quota's id stands far behind the message.
    google(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: "
        "generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10 Please retry in 22.6s."
        + " See the documentation." * 40
        + " quotaId: GenerateRequestsPerDayPerProjectPerModel-FreeTier",
    ),
    compatible(402, {"error": {"message": "Payment Required"}}),
    compatible(402, {"error": {"message": "This request requires more credits, or fewer max_tokens."}}),
    compatible(402, {"error": "You have exceeded your monthly included credits for Inference Providers."}),
    compatible(429, {"error": {"message": "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000"}}),
    compatible(429, {"error": {"message": "Rate limit of 150 per 86400s exceeded for UserByModelByDay."}}),
    compatible(429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}),
    compatible(429, {"error": {"message": "Your account org-a is suspended due to insufficient balance, recharge it"}}),
    compatible(403, {"code": 30001, "message": "Sorry, your account balance is insufficient"}),
    compatible(403, {"error": {"code": "AccountOverdueError", "message": "your account has an overdue balance."}}),
    compatible(403, {"error": {"message": "用户额度不足, 剩余额度: ＄0.00", "code": "insufficient_user_quota"}}),
    compatible(403, {"error": {"message": "Your team has either used all available credits or reached its limit."}}),
    compatible(429, {"errors": [{"message": "you have used up your daily free allocation of 10,000 neurons"}]}),
    compatible(200, {"error_code": 17, "error_msg": "Open api daily request limit reached"}),
    compatible(429, {"error": {"code": "1304", "message": "今日调用次数限额已用尽"}}),
    compatible(400, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}),
    compatible(403, {"message": "クレジット残高が不足しています"}),
    compatible(429, {"message": "本日の利用上限に達しました"}),
    compatible(429, {"error": "you (name) have reached your weekly usage limit, upgrade for higher limits"}),
    compatible(429, {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached"}}),
    compatible(429, {"message": "API quota exhausted for this billing period"}),
    compatible(429, {"message": "Your account has reached its quota of 1000 tokens/week"}),
    "You've hit your usage limit for the week",
    (
        "Failed to invoke model qwen-max, status code: 400, error code: Arrearage, message: Access denied, please make "
        "sure your account is in good standing."
    ),
    (
        "Failed to invoke model qwen-max, status code: 403, error code: AllocationQuota.FreeTierOnly, message: "
        "The free tier of the model has been exhausted."
    ),
    (
        "An error occurred (ThrottlingException) when calling the Converse operation: Too many tokens per day, please "
        "wait before trying again."
    ),
    "Model provider langgenius/openai/openai quota exceeded.",
    "Your quota for Dify Hosted Model Provider has been exhausted. Please go to Settings -> Model Provider.",
]
# They name days, plans, payment and quotas too, and pass in a minute.
PASSING = [
    "Too many tokens, please wait before trying again.",
    openai(
        429,
        "Rate limit reached for gpt-3.5-turbo in organization org-a on requests per min. Limit: 3 / min. Please try "
        "again in 20s. You can increase your rate limit by adding a payment method to your account at "
        "https://platform.openai.com/account/billing.",
    ),
    google(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: "
        "generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10, model: gemini-2.5-flash",
    ),
    google(
        429,
        "RESOURCE_EXHAUSTED",
        "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: "
        "generativelanguage.googleapis.com/generate_content_free_tier_input_token_count, limit: 250000",
    ),
    google(
        429,
        "RESOURCE_EXHAUSTED",
        "Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_model",
    ),
    google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    compatible(429, {"error": {"message": "Rate limit exceeded: free-models-per-min."}}),
    compatible(429, {"message": "You are using a Trial key, which is limited to 40 API calls / minute."}),
    compatible(429, {"error": {"code": "1302", "message": "您的账户已达到速率限制，请您控制请求频率"}}),
]


@pytest.mark.parametrize("wrap", [str, from_dify, from_plugin])
@pytest.mark.parametrize("message", USED_UP, ids=range(len(USED_UP)))
def test_quota_or_balance_that_is_used_up(message: str, wrap: Any) -> None:
    assert failure(wrap(message)).reason is Reason.QUOTA_EXHAUSTED


@pytest.mark.parametrize("wrap", [str, from_dify, from_plugin])
@pytest.mark.parametrize("message", PASSING, ids=range(len(PASSING)))
def test_limit_that_passes_in_a_minute_whatever_else_its_words_name(message: str, wrap: Any) -> None:
    assert failure(wrap(message)).reason is Reason.RATE_LIMITED


POOL = "QueuePool limit of size 30 overflow 10 reached, connection timed out, timeout 30.00"
BUSY = [
    from_dify("user not found"),
    from_dify("tenant not found"),
    from_dify("Internal Server Error", 500),
    from_dify("Something went wrong.", 500),
    from_dify("", 503),
    from_dify(f"{POOL} (Background on this error at: https://sqlalche.me/e/20/3o7r)"),
    from_plugin(POOL),
    from_plugin("[models] Error: (psycopg2.OperationalError) FATAL: sorry, too many clients already"),
    "invoke text-embedding model failed: " + from_dify("user not found").partition(": ")[2],
    # The page of a gateway in front of Dify.
    "invoke llm model failed: request failed with status code: 502 and respond with: <html>Bad Gateway</html>",
    "invoke llm model failed: request failed with status code: 504 and respond with: <html>\n<h1>504 Gateway Time-out",
    f"read app failed: {POOL}",
]


@pytest.mark.parametrize("text", BUSY, ids=range(len(BUSY)))
def test_a_dify_without_a_free_connection_is_busy(text: str) -> None:
    assert failure(text).reason is Reason.DIFY_BUSY


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        # A wrong key at a provider that says it so.
        (from_plugin(compatible(401, {"error": {"message": "User not found.", "code": 401}})), "model_unauthorized"),
        (from_plugin("[models] Error: user not found"), "model_error"),
        (from_dify("[models] Error: user not found"), "model_error"),
        (from_dify("user not found in directory x"), "model_error"),
        (from_dify("Model gpt-4o credentials is not initialized.", 500), "model_unauthorized"),
        (from_plugin(compatible(500, {"error": "Internal Server Error"})), "model_unavailable"),
        (from_dify(compatible(500, {"error": "Internal Server Error"}), 500), "model_unavailable"),
    ],
)
def test_what_only_sounds_like_a_busy_dify(text: str, reason: str) -> None:
    assert failure(text).reason == reason


@pytest.mark.parametrize("wrap", [str, from_dify, from_plugin])
@pytest.mark.parametrize(("message", "wait"), RATE_LIMITED, ids=range(len(RATE_LIMITED)))
def test_limit_of_the_provider(message: str, wait: float | None, wrap: Any) -> None:
    error = failure(wrap(message))
    assert (error.reason, error.retry_after) == (Reason.RATE_LIMITED, wait)


@pytest.mark.parametrize("wrap", [str, from_dify, from_plugin])
@pytest.mark.parametrize("message", CONTEXT_TOO_LONG, ids=range(len(CONTEXT_TOO_LONG)))
def test_more_than_the_model_can_read(message: str, wrap: Any) -> None:
    assert failure(wrap(message)).reason is Reason.CONTEXT_TOO_LONG


@pytest.mark.parametrize("wrap", [str, from_dify, from_plugin])
@pytest.mark.parametrize(("message", "reason"), OTHERS, ids=range(len(OTHERS)))
def test_other_failures(message: str, reason: Reason, wrap: Any) -> None:
    assert failure(wrap(message)).reason is reason


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("InvokeRateLimitError", Reason.RATE_LIMITED),
        ("InvokeServerUnavailableError", Reason.MODEL_UNAVAILABLE),
        ("InvokeConnectionError", Reason.MODEL_UNAVAILABLE),
        ("InvokeAuthorizationError", Reason.MODEL_UNAUTHORIZED),
        ("CredentialsValidateFailedError", Reason.MODEL_UNAUTHORIZED),
        ("InvokeBadRequestError", Reason.MODEL_ERROR),
        ("KeyError", Reason.MODEL_ERROR),
    ],
)
def test_type_that_the_model_plugin_gave_tells_where_the_message_does_not(kind: str, reason: Reason) -> None:
    assert failure(from_plugin("[models] something", kind)).reason is reason


@pytest.mark.parametrize("request_id", ["4290000000", "5030503503", "status4290", "a429b503c4"])
def test_numbers_in_request_ids_tell_nothing(request_id: str) -> None:
    assert failure(from_plugin("[models] Error: odd", request=request_id)).reason is Reason.MODEL_ERROR
    inner = compatible(400, {"error": {"message": "odd"}, "request_id": request_id})
    assert failure(from_plugin(inner, request=request_id)).reason is Reason.MODEL_ERROR


def test_words_of_our_prompt_that_a_provider_repeats_tell_nothing() -> None:
    echo = compatible(400, {"error": {"message": "Invalid request", "input": "x" * 600 + " status code 429 quota"}})
    assert failure(from_plugin(echo)).reason is Reason.MODEL_ERROR
    assert failure(from_plugin("[models] Error: " + "x" * 600 + " status code 429")).reason is Reason.MODEL_ERROR


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 20s.", 20.0),
        ("Please try again in 7.66s.", 7.66),
        ("try again in 250ms", 0.25),
        ("Please try again in 6m0s.", 360.0),
        ("try again in 1m20.5s", 80.5),
        ("try again in 2m", 120.0),
        ("Please retry after 86400 seconds.", 86400.0),
        ("Retry after 1 sec", 1.0),
        ("Please retry in 0.5s", 0.5),
        ("Please try again later.", None),
        ("try again in a moment", None),
        ("retry in .s", None),
        ("try again in 5 minutes", None),
        ("", None),
    ],
)
def test_time_that_the_provider_asks_to_wait(message: str, seconds: float | None) -> None:
    assert retry_after(message) == seconds


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (
            openai(
                400,
                "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is.",
            ),
            "temperature",
        ),
        (openai(400, "Unsupported value: 'temperature' does not support 0.1"), "temperature"),
        (openai(400, "Unsupported parameter: 'top_p' is not supported with this model."), "top_p"),
        (openai(400, "Unsupported parameter: 'top_p'"), "top_p"),
        (
            openai(
                400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
            ),
            "max_tokens",
        ),
        (openai(400, "Unrecognized request argument supplied: top_k"), "top_k"),
        (
            anthropic(
                400,
                "invalid_request_error",
                "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
            ),
            "temperature",
        ),
        (
            anthropic(400, "invalid_request_error", "temperature and top_p cannot both be specified for this model."),
            "temperature",
        ),
        (
            anthropic(400, "invalid_request_error", "`temperature` may only be set to 1 when thinking is enabled."),
            "temperature",
        ),
        (anthropic(400, "invalid_request_error", "`temperature` is deprecated for this model."), "temperature"),
        (compatible(422, {"error": "Input validation error: `temperature` must be strictly positive"}), "temperature"),
        (compatible(400, {"error": "invalid params, temperature must be in (0, 1]"}), "temperature"),
        (compatible(400, {"error": "invalid temperature: only 1 is allowed for this model"}), "temperature"),
        (compatible(400, {"error": "The parameter `stop` specified in the request is not supported"}), "stop"),
        (compatible(400, {"error": "Additional properties are not allowed ('seed' was unexpected)"}), "seed"),
        (compatible(400, {"error": "got an unexpected keyword argument 'json_schema'"}), "json_schema"),
        (openai(404, "The model `gpt-x` does not exist."), ""),
        (openai(401, "Incorrect API key provided."), ""),
        (openai(400, "This model's maximum context length is 8192 tokens."), ""),
        (compatible(429, {"error": "Rate limit reached"}), ""),
        (compatible(400, {"error": "x" * 600 + " unsupported parameter: 'top_p'"}), ""),
    ],
    ids=range(21),
)
@pytest.mark.parametrize("wrap", [str, from_dify, from_plugin])
def test_parameter_that_a_model_refuses(message: str, name: str, wrap: Any) -> None:
    assert refused_parameter(wrap(message)) == name
