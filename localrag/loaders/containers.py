"""Files within a file: attachments of a mail or a PDF, archives in a mail; read by the parser of their own suffix, within limits."""

from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from zipfile import BadZipFile

from localrag.loaders.content import InnerFile, LoadOptions, ParsedFile, Unreadable, metadata_pairs, open_archive

MAX_LISTED = 5  # files that were not read for the same reason, by name


@dataclass(slots=True)
class InnerFiles:
    """The files within one file: `sections` has the label and text of those that were read, `unread` the reason of each other one."""

    options: LoadOptions
    sections: list[tuple[str, str]] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, data: bytes) -> None:
        """Read a file, or the files of an archive. What cannot be read is listed with its reason."""
        if PurePosixPath(name).suffix.lower() == ".zip" and not self._is_over(name, len(data)):
            self._read_archive(name, data)
            return
        try:
            content = self._parsed(name, data)
        except Unreadable as error:
            self.unread[name] = str(error)
        else:
            self.sections.append((f"attachment {name}", f"# {name}\n\n{content.text}"))
            self.unread |= {f"{name}: {key}": value for key, value in content.metadata if key == "not read"}

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The files that were not read, with their reasons."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.unread.items():
            by_reason.setdefault(reason, []).append(name)
        listed = (
            f"{', '.join(names[:MAX_LISTED])}{f' and {len(names) - MAX_LISTED} more' if len(names) > MAX_LISTED else ''}: {reason}"
            for reason, names in by_reason.items()
        )
        return metadata_pairs(**{"not read": "; ".join(listed)})

    def _is_over(self, name: str, size: int) -> bool:
        """Whether a file is beyond the limits; it is listed then, else counted."""
        budget = self.options.inner
        if budget is None or budget.files <= 0 or budget.size < size or budget.depth <= 0:
            self.unread[name] = "too many files, too large or too deep within others"
            return True
        budget.files, budget.size = budget.files - 1, budget.size - size
        return False

    def _parsed(self, name: str, data: bytes) -> ParsedFile:
        """The content of a file. Raises Unreadable."""
        budget = self.options.inner
        if self._is_over(name, len(data)) or budget is None:
            raise Unreadable(self.unread[name])
        budget.depth -= 1
        try:
            plain = replace(self.options, ocr="", pages={}, pandoc_program="", pandoc_json="")
            content = budget.parse(InnerFile(PurePosixPath(name).name or name, -1, data), plain)
        except (Unreadable, MemoryError):
            raise
        except RecursionError as error:
            raise Unreadable("nested too deeply") from error
        except Exception as error:  # parsers of broken files raise anything
            raise Unreadable(f"damaged: {str(error)[:100] or 'it ends too early'}", failed=True) from error
        finally:
            budget.depth += 1
        return content

    def _read_archive(self, name: str, data: bytes) -> None:
        """Read the files of an archive."""
        budget = self.options.inner
        if budget is None:
            return
        budget.depth -= 1
        try:
            with open_archive(InnerFile(name, -1, data)) as archive:
                for entry in archive.infolist():
                    if not entry.is_dir():
                        self.read(f"{name}/{entry.filename}", archive.read(entry))
        except (Unreadable, BadZipFile, NotImplementedError, OSError) as error:
            self.unread[name] = str(error)
        finally:
            budget.depth += 1
