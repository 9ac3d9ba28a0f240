"""Apps as topologies: streams, tables, joins and windows, described once and run by a test driver or on Spark."""

from storekeeper.topology.builder import StreamsBuilder
from storekeeper.topology.driver import CrashStep, OutputRecord, TopologyTestDriver
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.failures import OnError
from storekeeper.topology.functions import with_key, with_window
from storekeeper.topology.grouped import KGroupedStream, KGroupedTable
from storekeeper.topology.join_windows import JoinWindows
from storekeeper.topology.kstream import KStream
from storekeeper.topology.ktable import GlobalTable, KTable
from storekeeper.topology.operators.process import Processor, ProcessorContext
from storekeeper.topology.operators.suppress import BufferConfig, BufferFullStrategy, until_limit, until_window_closes
from storekeeper.topology.plan import Plan, SubTopology, Topology
from storekeeper.topology.store import Store, StoreKind
from storekeeper.topology.timers import TimeKind
from storekeeper.topology.windows import EmitStrategy, hopping, sessions, sliding, tumbling

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
