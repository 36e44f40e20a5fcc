"""What a caller gives to a flow's Start node, checked as Dify checks it before the flow runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from graphon.variables.input_entities import VariableEntity, VariableEntityType

_TEXTS = (VariableEntityType.TEXT_INPUT, VariableEntityType.PARAGRAPH, VariableEntityType.SELECT)
_FILES = (VariableEntityType.FILE, VariableEntityType.FILE_LIST)


def start_inputs(variables: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every variable that a Start node declares; what it does not declare is dropped.

    Raises:
        ValueError: in Dify's words, when a value is missing or does not fit.
    """
    declared = [VariableEntity.model_validate(variable) for variable in variables]
    return {variable.variable: _checked(variable, given.get(variable.variable)) for variable in declared}


def _checked(variable: VariableEntity, value: Any) -> Any:
    name = variable.variable
    if value is None:
        if variable.required:
            raise ValueError(f"{name} is required in input form")
        value = variable.default
    if value is None or (value == "" and variable.type in _FILES):
        return None
    if variable.type in _TEXTS and not isinstance(value, str):
        raise ValueError(f"(type '{variable.type}') {name} in input form must be a string")
    match variable.type:
        case VariableEntityType.NUMBER:
            return _number(name, value)
        case VariableEntityType.SELECT if value not in variable.options:
            raise ValueError(f"{name} in input form must be one of the following: {variable.options}")
        case VariableEntityType.TEXT_INPUT | VariableEntityType.PARAGRAPH:
            if variable.max_length and len(value) > variable.max_length:
                raise ValueError(f"{name} in input form must be less than {variable.max_length} characters")
        case VariableEntityType.FILE_LIST if not isinstance(value, list):
            raise ValueError(f"{name} in input form must be a list of files")
        case VariableEntityType.FILE_LIST:
            if variable.max_length and len(value) > variable.max_length:
                raise ValueError(f"{name} in input form must be less than {variable.max_length} files")
    return value


def _number(name: str, value: Any) -> int | float | None:
    if not isinstance(value, str):
        return value if isinstance(value, int | float) else None
    if not value.strip():
        return None
    try:
        return float(value) if "." in value else int(value)
    except ValueError:
        raise ValueError(f"{name} in input form must be a valid number") from None
