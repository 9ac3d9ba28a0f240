"""Apps as topologies: streams, tables, joins and windows, described once and run by a test driver or on Spark."""

from state.topology.builder import StreamsBuilder
from state.topology.driver import CrashStep, OutputRecord, TopologyTestDriver
from state.topology.dropped_records import DropReason
from state.topology.failures import OnError
from state.topology.functions import with_key, with_window
from state.topology.grouped import KGroupedStream, KGroupedTable
from state.topology.join_windows import JoinWindows
from state.topology.kstream import KStream
from state.topology.ktable import GlobalTable, KTable
from state.topology.operators.process import Processor, ProcessorContext
from state.topology.operators.suppress import BufferConfig, BufferFullStrategy, until_limit, until_window_closes
from state.topology.plan import Plan, SubTopology, Topology
from state.topology.store import Store, StoreKind
from state.topology.timers import TimeKind
from state.topology.windows import EmitStrategy, hopping, sessions, sliding, tumbling

__all__ = [
    "BufferConfig",
    "BufferFullStrategy",
    "CrashStep",
    "DropReason",
    "EmitStrategy",
    "GlobalTable",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "OnError",
    "OutputRecord",
    "Plan",
    "Processor",
    "ProcessorContext",
    "Store",
    "StoreKind",
    "StreamsBuilder",
    "SubTopology",
    "TimeKind",
    "Topology",
    "TopologyTestDriver",
    "hopping",
    "sessions",
    "sliding",
    "tumbling",
    "until_limit",
    "until_window_closes",
    "with_key",
    "with_window",
]
