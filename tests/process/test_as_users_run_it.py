"""The cases of ``tests/web`` that look at nothing inside, once more against ``python -m gateway``.

There they run in the test's own loop, where everything can be seen; here nothing but sockets,
signals and the log is left.  Each process must end with status 0 and without a traceback.
"""

# ruff: noqa: F401

from __future__ import annotations

import pytest

from tests.process.conftest import StartGateway
from tests.web.test_leaving import (
    stalled,
    test_a_reader_that_stalls_is_dropped_and_its_slot_goes_on,
    test_a_slow_reader_holds_no_slot_once_the_upstream_is_done,
    test_leaving_closes_the_upstream_and_starts_the_next,
    test_leaving_without_streaming_is_noticed_as_well,
    test_one_clients_leaving_does_not_touch_anothers_answer,
)
from tests.web.test_slot_safety import (
    test_a_client_that_asks_again_has_one_living_request_at_most,
    test_a_native_stream_that_only_pings_after_its_reason_is_ended_for_it,
    test_a_slot_is_held_until_the_body_has_ended_not_the_headers,
    test_an_upstream_and_a_client_that_die_together_give_one_slot_back_once,
)
from tests.web.test_surface import (
    test_a_body_over_the_limit_is_too_large_however_it_is_framed,
    test_a_clients_credentials_never_travel_up,
    test_a_request_refused_anyway_is_not_asked_to_continue,
    test_an_unknown_model_is_told_the_known_ones,
    test_the_sum_of_waiting_bodies_is_bounded,
    test_twenty_megabytes_are_a_normal_request,
)
from tests.web.test_upstream_faults import (
    rude,
    test_a_connection_that_has_gone_stale_is_no_failure,
    test_a_reason_to_stop_without_an_end_gets_a_short_grace,
    test_a_stream_that_breaks_off_ends_in_an_error_frame,
    test_a_stream_that_nobody_asked_for_is_collected,
    test_an_answer_compressed_against_our_wish_is_read_all_the_same,
    test_keep_alives_never_cut_a_frame,
    test_no_first_byte_is_a_timeout,
    test_silence_before_the_answer_opens_the_response_and_keeps_it_alive,
    test_silence_in_the_stream_is_bridged_and_then_a_timeout,
    test_the_same_fault_after_waiting_is_one_error_frame,
    test_what_is_not_even_http_is_a_bad_gateway,
)
from tests.web.test_waiting import (
    test_a_client_may_ask_for_another_form,
    test_a_full_line_refuses_with_a_status_and_advice,
    test_a_request_that_finds_a_free_slot_sees_no_queue_frame,
    test_a_waiting_stream_counts_down_to_its_answer,
    test_a_whole_answer_waits_without_a_word_and_tells_how_long,
    test_leaving_in_the_very_tick_of_the_grant_loses_no_slot,
    test_one_client_may_not_fill_the_line,
    test_the_waiting_response_opens_at_once_and_as_the_proxy_needs_it,
    test_whoever_leaves_the_line_never_reaches_the_upstream,
    test_whoever_waits_too_long_is_told_and_never_sent_up,
)


@pytest.fixture
def make_gateway(start_gateway: StartGateway) -> StartGateway:
    """What those tests call to get a gateway."""
    return start_gateway
