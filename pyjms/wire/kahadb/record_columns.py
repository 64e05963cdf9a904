"""A journal's records as columns, built straight from the bytes of its batches.

`add` reads adds and removes in the form in which ActiveMQ and this broker write them, without
making a command of them; all other records, and damage, go through `codec`, which is the reference
and has the error texts. The columns of the messages are those of `openwire.message_columns`.
(activemq-persistence K7, K8; spark-pipeline 5 C)
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Any, Final

from pyjms.errors import JMSException
from pyjms.wire.kahadb.codec import decode_command, encode_varint
from pyjms.wire.kahadb.commands import (
    COMMANDS,
    KahaAddMessageCommand,
    KahaCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.frames import (
    SAME_MESSAGES_FROM,
    decode_message,
    from_kaha_destination,
    from_transaction_info,
)
from pyjms.wire.kahadb.journal import RECORD_HEAD
from pyjms.wire.openwire.kinds import I32
from pyjms.wire.openwire.message_columns import DECLINED, LEFT_OUT, MessageColumns
from pyjms.wire.openwire.schema import CURRENT_VERSION

OWN_COLUMNS: Final = (
    "file_id", "offset", "size", "command", "transaction", "subscription", "error",
)  # fmt: skip
"""The names of the columns that are not the message's."""

_NAMES: Final[dict[int, str]] = {
    code: kind.__name__.removeprefix("Kaha").removesuffix("Command")
    for code, kind in COMMANDS.items()
}
COMMAND_NAMES: Final[dict[int, str]] = {
    code: name[0].lower() + name[1:] for code, name in _NAMES.items()
}
"""`addMessage` for the code of KahaAddMessageCommand, and so on. (activemq-persistence K7)"""

ADD: Final = KahaAddMessageCommand.CODE
REMOVE: Final = KahaRemoveMessageCommand.CODE
COMMIT: Final = KahaCommitCommand.CODE
REMOVE_DESTINATION: Final = KahaRemoveDestinationCommand.CODE
_ADD_NAME: Final = COMMAND_NAMES[ADD]
_HEAD: Final = RECORD_HEAD.size
# Tags of fields: the number, and how the value is encoded. (see `codec`)
_FIELD_1: Final = 0x0A
_FIELD_2: Final = 0x12
_FIELD_3: Final = 0x1A
_FIELD_4: Final = 0x22
_FIELD_5: Final = 0x2A
_PRIORITY: Final = 0x28
_PRIORITY_SUPPORTED: Final = 0x30
_MEMO_VALUES: Final = 1024


class RecordFields:
    """The fields of the add or remove that was read last."""

    __slots__ = (
        "_texts", "found_destination", "found_id", "found_key", "found_transaction", "frame_at",
        "frame_end", "transaction_field",
    )  # fmt: skip

    def __init__(self) -> None:
        self.found_transaction: str | None = None
        self.transaction_field: bytes = b""
        """The bytes of the transaction, whose text may be that of another one, too."""
        self.found_destination: str = ""
        self.found_id: bytes = b""
        self.found_key: str | None = None
        """The durable subscription of a remove."""
        self.frame_at: int = 0
        """Where the message of an add begins, with its size."""
        self.frame_end: int = 0
        self._texts: dict[bytes, str] = {}

    def read(self, data: bytes, at: int, end: int) -> bool:
        """Read the payload `data[at:end]`; False: it is no add or remove in the usual form."""
        code = data[at]
        if code not in (ADD, REMOVE):
            return False
        try:
            return self._read_fields(data, at + 1, end, code == ADD)
        except (IndexError, struct.error, JMSException, UnicodeDecodeError):
            return False

    def _read_fields(self, data: bytes, at: int, end: int, is_add: bool) -> bool:
        """Read the fields of an add or a remove; False: they are not in the usual form.

        A field that is longer than 127 bytes is not usual, except for the message.
        """
        size = data[at]
        at += 1
        if size > 127:
            size, at = _read_size(data, size, at)
        if size != end - at:
            return False
        tag = data[at]
        self.found_transaction = None
        if tag == _FIELD_1:
            after = at + 2 + data[at + 1]
            if data[at + 1] > 127:
                return False
            self.transaction_field = data[at:after]
            self.found_transaction = self._text(self.transaction_field)
            at = after
            tag = data[at]
        length = data[at + 1]
        if tag != _FIELD_2 or length > 127:
            return False
        after = at + 2 + length
        self.found_destination = self._text(data[at:after])
        length = data[after + 1]
        if data[after] != _FIELD_3 or length > 127:
            return False
        at = after + 2
        after = at + length
        self.found_id = data[at:after]
        if not self.found_id.isascii():
            return False
        at = after
        self.found_key = None
        self.frame_at = self.frame_end = at
        if at < end and data[at] == _FIELD_4:
            length = data[at + 1]
            at += 2
            if length > 127:
                length, at = _read_size(data, length, at)
            self.frame_at = at
            at = self.frame_end = at + length
        elif is_add:
            return False
        if at == end:
            return self._is_framed(data) if is_add else True
        if is_add:
            if data[at] == _PRIORITY and data[at + 1] < 128:
                at += 2
            if at < end and data[at] == _PRIORITY_SUPPORTED and data[at + 1] < 128:
                at += 2
            return at == end and self._is_framed(data)
        length = data[at + 1]
        if data[at] != _FIELD_5 or length > 127 or at + 2 + length != end:
            return False
        self.found_key = str(data[at + 2 : end], "utf-8")
        return True

    def _is_framed(self, data: bytes) -> bool:
        """Return whether the message's own size is that of the field."""
        size: int = I32.unpack_from(data, self.frame_at)[0]
        return 0 < size == self.frame_end - self.frame_at - 4

    def _text(self, key: bytes) -> str:
        """Return the text of a destination or a transaction, given the bytes of its field."""
        found = self._texts.get(key)
        if found is None:
            if key[0] == _FIELD_1:
                found = str(from_transaction_info(decode_transaction(key)))
            else:  # the only field of a command that removes a destination has the same form
                only = _with_one_field(REMOVE_DESTINATION, bytes((_FIELD_1,)) + key[1:])
                found = destination_text(only)
            if found is None:
                raise IndexError
            if len(self._texts) >= _MEMO_VALUES:
                self._texts.clear()
            self._texts[key] = found
        return found


class RecordColumns(RecordFields):
    """The columns of records that were added, in their order. Not thread-safe."""

    __slots__ = (
        "_command", "_commands", "_destinations", "_error", "_file_id", "_has_times", "_offset",
        "_reads_frames", "_reads_messages", "_size", "_subscription", "_transaction", "_version",
        "file_id", "lists", "messages",
    )  # fmt: skip

    def __init__(
        self, wanted: Collection[str], messages: MessageColumns, version: int,
        commands: frozenset[str] | None = None, destinations: frozenset[str] | None = None,
    ) -> None:  # fmt: skip
        """Build these columns, and those of `messages`, which are in OpenWire `version`.

        Only of records with these commands, and of these destinations by their qualified names;
        None: all.
        """
        super().__init__()
        self.messages: MessageColumns = messages
        self.file_id: int = 0
        """The number of the segment whose records are added."""
        self.lists: dict[str, list[Any]] = {name: [] for name in OWN_COLUMNS if name in wanted}
        self._commands = commands
        self._destinations = destinations
        self._has_times = messages.earliest is not None or messages.latest is not None
        # else the messages themselves are not read at all
        self._reads_messages = bool(messages.lists) or "error" in wanted or self._has_times
        self._version = version
        self._reads_frames = SAME_MESSAGES_FROM <= version <= CURRENT_VERSION
        self._bind()

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.messages.count

    def take(self) -> dict[str, list[Any]]:
        """Return the lists of the own columns, and begin with empty ones; see also `messages`."""
        taken = self.lists
        self.lists = {name: [] for name in taken}
        self._bind()
        return taken

    def _bind(self) -> None:
        lists = self.lists
        self._file_id: list[Any] | None = lists.get("file_id")
        self._offset: list[Any] | None = lists.get("offset")
        self._size: list[Any] | None = lists.get("size")
        self._command: list[Any] | None = lists.get("command")
        self._transaction: list[Any] | None = lists.get("transaction")
        self._subscription: list[Any] | None = lists.get("subscription")
        self._error: list[Any] | None = lists.get("error")

    def add_records(self, data: bytes, base: int, offsets: Sequence[int]) -> None:
        """Add the user records at these offsets of the segment; `data` begins at offset `base`."""
        for offset in offsets:
            at = offset - base
            size: int = RECORD_HEAD.unpack_from(data, at)[0]
            self.add(data, at + _HEAD, at + size, offset)

    def add(self, data: bytes, at: int, end: int, offset: int) -> None:
        """Add the record with the payload `data[at:end]`, which begins at `offset`."""
        code = data[at]
        if (code != ADD or self._reads_frames) and self.read(data, at, end):
            name = COMMAND_NAMES[code]
            if not self._accepts(name, self.found_destination):
                return
            size = end - at + _HEAD
            if code == ADD and self._reads_messages:
                if self._add_message(data, offset, size):
                    return
            else:
                if not self._has_times:  # which only messages have
                    self.messages.add_nulls(str(self.found_id, "ascii"), self.found_destination)
                    self._append(offset, size, name, self.found_transaction, self.found_key, None)
                return
        self._add_decoded(data[at:end], offset)

    def add_pending(self, payload: bytes, subscription: str | None) -> None:
        """Add the message of an add or an update, waiting for `subscription` if it is a topic's.

        Raises:
            ProtocolViolation: the record cannot be read.
        """
        is_add = payload[0] == ADD and self._reads_frames
        if is_add and self.read(payload, 0, len(payload)):
            at = self.frame_at
            added = self.messages.add(payload, at + 5, self.frame_end, payload[at + 4], None)
            if added == LEFT_OUT:
                return
            if added != DECLINED:
                self._add_subscription(subscription)
                return
        command = decode_command(payload)
        if isinstance(command, KahaUpdateMessageCommand):
            command = command.message
        if not isinstance(command, KahaAddMessageCommand):
            raise KahaDBFormatError(f"{type(command).__name__} has no message")
        message = decode_message(command.message, self._version)
        if self.messages.add_message(message, None, message.redelivery_counter):
            self._add_subscription(subscription)

    def _add_subscription(self, subscription: str | None) -> None:
        if self._subscription is not None:
            self._subscription.append(subscription)

    def _accepts(self, name: str, destination: str | None) -> bool:
        return (self._commands is None or name in self._commands) and (
            self._destinations is None or destination in self._destinations
        )

    def _add_message(self, data: bytes, offset: int, size: int) -> bool:
        """Add an add with its message; False: `_add_decoded` has to do it."""
        at = self.frame_at
        error: str | None = None
        try:
            added = self.messages.add(data, at + 5, self.frame_end, data[at + 4], None)
        except JMSException as failure:
            error = str(failure)
            self.messages.add_nulls(str(self.found_id, "ascii"), self.found_destination)
        else:
            if added == DECLINED:
                return False
            if added == LEFT_OUT:
                return True
        self._append(offset, size, _ADD_NAME, self.found_transaction, None, error)
        return True

    def _add_decoded(self, payload: bytes, offset: int) -> None:
        """Add a record by way of its command."""
        size = len(payload) + _HEAD
        try:
            command = decode_command(payload)
            destination, transaction = destination_text(command), transaction_text(command)
        except JMSException as failure:
            self.messages.add_nulls(None, None)
            self._append(offset, size, None, None, None, str(failure))
            return
        name = COMMAND_NAMES[command.CODE]
        if not self._accepts(name, destination):
            return
        added = command.message if isinstance(command, KahaUpdateMessageCommand) else command
        error: str | None = None
        if isinstance(added, KahaAddMessageCommand) and self._reads_messages:
            try:
                message = decode_message(added.message, self._version)
                if not self.messages.add_message(message, None, message.redelivery_counter):
                    return
            except JMSException as failure:
                error = str(failure)
                self.messages.add_nulls(getattr(command, "message_id", None), destination)
        elif self._has_times:
            return
        else:
            self.messages.add_nulls(getattr(command, "message_id", None), destination)
        key = getattr(command, "subscription_key", None)
        self._append(offset, size, name, transaction, key, error)

    def _append(
        self, offset: int, size: int, command: str | None, transaction: str | None,
        subscription: str | None, error: str | None,
    ) -> None:  # fmt: skip
        if self._file_id is not None:
            self._file_id.append(self.file_id)
        if self._offset is not None:
            self._offset.append(offset)
        if self._size is not None:
            self._size.append(size)
        if self._command is not None:
            self._command.append(command)
        if self._transaction is not None:
            self._transaction.append(transaction)
        if self._subscription is not None:
            self._subscription.append(subscription)
        if self._error is not None:
            self._error.append(error)


def decode_transaction(field: bytes) -> KahaTransactionInfo:
    """Return the transaction in the bytes of a command's first field.

    Raises:
        KahaDBFormatError: it is not valid.
    """
    commit = _with_one_field(COMMIT, field)
    assert isinstance(commit, KahaCommitCommand)
    return commit.transaction_info


def _with_one_field(code: int, field: bytes) -> KahaCommand:
    return decode_command(bytes((code,)) + encode_varint(len(field)) + field)


def destination_text(command: KahaCommand) -> str | None:
    """Return the qualified name of a command's destination; None: it has none.

    Raises:
        KahaDBFormatError: the destination is not valid.
    """
    found = (
        command.message.destination
        if isinstance(command, KahaUpdateMessageCommand)
        else getattr(command, "destination", None)
    )
    if not isinstance(found, KahaDestination):
        return None
    return from_kaha_destination(found).qualified_name


def transaction_text(command: KahaCommand) -> str | None:
    """Return the transaction id of a command; None: it has none.

    Raises:
        KahaDBFormatError: it is neither local nor XA.
    """
    info = getattr(command, "transaction_info", None)
    return str(from_transaction_info(info)) if isinstance(info, KahaTransactionInfo) else None


def _read_size(data: bytes, first: int, at: int) -> tuple[int, int]:
    """Return a size of two to four bytes, of which `first` is before `at`, and its end.

    Raises:
        IndexError: it is longer, which `codec` reads or refuses.
    """
    size = first & 127
    for shift in (7, 14, 21):
        byte = data[at]
        at += 1
        size |= (byte & 127) << shift
        if byte < 128:
            return size, at
    raise IndexError
