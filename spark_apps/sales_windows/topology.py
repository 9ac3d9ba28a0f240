"""From invoices to sales per store and item in windows of time.

The key of a window store is `<StoreID>/<ItemCode>` (a slash inside the StoreID is written `%2F`, a percent sign `%25`).
A window takes sales until `sales_grace_ms` after its end, by stream time; what comes later is left out of that window.
An invoice that came too late for one of its windows or more is counted as late, once. A window stays in its store for
`sales_retention_ms` after its end, then a tombstone follows.

Each invoice counts once: it is recognised by store, number and time for as long as a window of its time is open.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import orjson
import xxhash

from spark_apps.processor.processor import ProcessorContext
from spark_apps.processor.records import SourceRecord
from spark_apps.records.invoice import Invoice, LineItem, parse_invoice
from spark_apps.records.money import format_units, to_units
from spark_apps.records.poison import PoisonRecordError
from spark_apps.sales_windows.panes import Panes, Sold, WindowPlan, Windows
from spark_apps.sales_windows.spec import SALES, SALES_HOPPING
from spark_apps.settings import AppSettings
from state.keys.windows import decode_window_row_key, window_row_key

_ITEM, _INVOICES, _EXPIRED = b"i", b"n", b"x"
_DIGEST_BYTES = 8
_SEEN_STEP_MS = 60_000

_decode = msgspec.msgpack.Decoder(Panes).decode
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class SalesWindows:
    """Keeps the panes of each store and item, and which invoices it has seen."""

    plan: WindowPlan
    max_record_bytes: int

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        """Adds an invoice's lines to their windows."""
        invoice = parse_invoice(record.key, record.value, max_record_bytes=self.max_record_bytes)
        if record.key != invoice.store_id.encode():
            raise PoisonRecordError("the key is not the StoreID")
        time_ms = invoice.created_time_ms
        context.advance(time_ms)
        windows = list(self.plan.windows_at(time_ms))
        taking = [(kind, start_ms) for kind, start_ms in windows if not self._is_closed(kind, start_ms, context)]
        if taking and not self._first_time(invoice, context):
            return
        if len(taking) < len(windows):
            context.late()
        if taking:
            for item_code, sold in _by_item(invoice.line_items).items():
                self._add(item_key(invoice.store_id, item_code), time_ms, sold, taking, context)

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        """Forgets invoices, or panes, or deletes a window whose time in its store is over."""
        kind, rest = key[:1], key[1:]
        if kind == _INVOICES:
            context.put(key, None)
        elif kind == _EXPIRED:
            windows, row_key = self.plan.kinds[rest[0]], rest[1:]
            context.change(windows.store, row_key, None, inner_key=decode_window_row_key(row_key)[0])
        else:
            panes = _panes(context, key)
            panes.timer_ms = 0
            self._keep(key, panes, context)

    def _first_time(self, invoice: Invoice, context: ProcessorContext) -> bool:
        step = invoice.created_time_ms // _SEEN_STEP_MS
        key = _INVOICES + step.to_bytes(8, "big") + invoice.store_id.encode()
        seen = context.get(key) or b""
        identity = f"{invoice.created_time_ms}/{invoice.invoice_number}"
        digest = xxhash.xxh3_64_digest(identity.encode())
        if digest in {seen[at : at + _DIGEST_BYTES] for at in range(0, len(seen), _DIGEST_BYTES)}:
            return False
        context.put(key, seen + digest)
        if not seen:
            context.schedule((step + 1) * _SEEN_STEP_MS + self.plan.open_for_ms, key)
        return True

    def _add(
        self,
        inner_key: bytes,
        time_ms: int,
        sold: Sold,
        taking: Iterable[tuple[Windows, int]],
        context: ProcessorContext,
    ) -> None:
        key = _ITEM + inner_key
        panes = _panes(context, key)
        pane_ms = time_ms - time_ms % self.plan.pane_ms
        # A sale that came too late for some of its windows still makes its pane: only windows that are open show it.
        before = [windows.total(panes, start_ms) for windows, start_ms in taking]
        panes.sold[pane_ms] = panes.sold.get(pane_ms, Sold()) + sold
        for (windows, start_ms), earlier in zip(taking, before, strict=True):
            row_key = window_row_key(inner_key, start_ms)
            total = windows.total(panes, start_ms)
            assert total is not None  # noqa: S101 (the pane is in it)
            value = window_value(inner_key, windows, start_ms, total)
            context.change(windows.store, row_key, value, inner_key=inner_key)
            if earlier is None:
                number = bytes([self.plan.kinds.index(windows)])
                context.schedule(start_ms + windows.size_ms + self.plan.retention_ms, _EXPIRED + number + row_key)
        self._keep(key, panes, context)

    def _keep(self, key: bytes, panes: Panes, context: ProcessorContext) -> None:
        self.plan.forget(panes, context.stream_time_ms)
        if panes.sold and not panes.timer_ms:
            panes.timer_ms = min(panes.sold) + self.plan.open_for_ms
            context.schedule(panes.timer_ms, key)
        context.put(key, _encode(panes) if panes.sold else None)

    def _is_closed(self, windows: Windows, start_ms: int, context: ProcessorContext) -> bool:
        return windows.is_closed(start_ms, grace_ms=self.plan.grace_ms, stream_time_ms=context.stream_time_ms)


def processor(settings: AppSettings) -> SalesWindows:
    """The app's logic under these settings."""
    size_ms, hop_ms = settings.sales_window_ms, settings.sales_hop_ms
    kinds = Windows(SALES.name, size_ms, size_ms), Windows(SALES_HOPPING.name, size_ms, hop_ms)
    plan = WindowPlan(kinds, hop_ms, settings.sales_grace_ms, settings.sales_retention_ms)
    return SalesWindows(plan, settings.max_record_bytes)


def item_key(store_id: str, item_code: str) -> bytes:
    """The key of a store's item in the window stores."""
    return f"{store_id.replace('%', '%25').replace('/', '%2F')}/{item_code}".encode()


def window_value(inner_key: bytes, windows: Windows, start_ms: int, sold: Sold) -> bytes:
    """The row of the store."""
    store_id, _, item_code = inner_key.decode().partition("/")
    told = {
        "StoreID": store_id.replace("%2F", "/").replace("%25", "%"),
        "ItemCode": item_code,
        "WindowStart": start_ms,
        "WindowEnd": start_ms + windows.size_ms,
        "Sales": sold.sales,
        "Quantity": sold.quantity,
        "Amount": orjson.Fragment(format_units(sold.amount_units)),
    }
    return orjson.dumps(told)


def _by_item(lines: Iterable[LineItem]) -> dict[str, Sold]:
    """What an invoice holds of each item: an item on two lines is one sale."""
    items: dict[str, Sold] = {}
    for line in lines:
        one = Sold(0, line.item_qty, to_units(line.total_value))
        items[line.item_code] = items.get(line.item_code, Sold(1)) + one
    return items


def _panes(context: ProcessorContext, key: bytes) -> Panes:
    stored = context.get(key)
    return Panes() if stored is None else _decode(stored)
