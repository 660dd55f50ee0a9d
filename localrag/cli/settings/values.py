"""Raw values → settings of their types, by pydantic; what cannot be is said with its place and with what can."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from localrag.cli.settings.table import Values, allowed
from localrag.errors import UsageError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Where = Callable[[str], str]


class _Environment(Values):
    """Texts, as variables and the command line have them."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 — the names are pydantic's
        init_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (env_settings,)


class _File(Values):
    """Values of TOML's own types; a number in quotes is none."""

    model_config = SettingsConfigDict(strict=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 — the names are pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


class _Text(_File):
    """One value as it is typed."""

    model_config = SettingsConfigDict(strict=False)


def of_environment(where: Where) -> dict[str, Any]:
    """The settings that variables set. Raises UsageError."""
    return _read(_Environment, {}, where)


def of_file(raw: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """The settings that a file sets. Raises UsageError."""
    return _read(_File, raw, where)


def of_text(name: str, text: str) -> Any:
    """The value of a setting from its text. Raises UsageError."""
    return _read(_Text, {name: text}, lambda name: name)[name]


def _read(kind: type[Values], raw: Mapping[str, Any], where: Where) -> dict[str, Any]:
    try:
        values = kind(**raw)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise UsageError(f"{where(name)}: {_said(name, first, raw)}", f"{name} is {allowed(name)}.") from error
    return {name: getattr(values, name) for name in values.model_fields_set}


def _said(name: str, error: "ErrorDetails", raw: Mapping[str, Any]) -> str:
    if error["type"] == "value_error":  # a check of our own
        return error["msg"].removeprefix("Value error, ")
    return f"{name} cannot be {raw.get(name, error['input'])!r}."
