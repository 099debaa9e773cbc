"""Vectors in Postgres keep the contract of those in a file."""

from tests.adapters.memory import test_hybrid_search
from tests.support.postgres import contract_of

FILES_ALONE = {"test_what_is_said_again_keeps_one_vector_and_what_is_forgotten_none"}
globals().update(contract_of(test_hybrid_search, files_alone=FILES_ALONE))
