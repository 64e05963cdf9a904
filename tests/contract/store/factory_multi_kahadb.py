"""Several KahaDB stores: one for queue Q, one for each topic, one for the rest."""

from pathlib import Path

from broker.store.journal.settings import JournalSettings, PreallocationScope
from broker.store.kahadb.settings import KahaDBSettings
from broker.store.multi import FilteredKahaDB, MultiKahaDBPersistenceAdapter

NAME = "multi_kahadb"
PERSISTENT = True
SMALL = JournalSettings(max_file_length=1 << 16, preallocation_scope=PreallocationScope.NONE)


def make(directory: Path) -> MultiKahaDBPersistenceAdapter:
    settings = KahaDBSettings(journal=SMALL)
    filters = [
        FilteredKahaDB(queue="Q", settings=settings),
        FilteredKahaDB(topic=">", per_destination=True, settings=settings),
        FilteredKahaDB(settings=settings),
    ]
    return MultiKahaDBPersistenceAdapter(directory / "mKahaDB", filters, transaction_journal=SMALL)
