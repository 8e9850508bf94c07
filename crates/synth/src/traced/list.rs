//! The list of the cases. The order seeds random numbers: new ones go to the end, to the named ones.

use super::clients::unusual;
use super::{around, client, clients, compaction, keep, micro, notes, restored};
use crate::cases::{CorpusCase, case};

pub(crate) const CASES: &[CorpusCase] = &[
    case(
        "micro-gap",
        "after 61 minutes, not after 59, all results but the newest five are cleared; a to-do list never",
        micro::micro_gap,
    ),
    case(
        "micro-cached",
        "at four results the oldest are deleted down to two, none twice, and the prompt cache stays warm",
        micro::micro_cached,
    ),
    case(
        "micro-cached-cold",
        "nothing is deleted on the server while the cache is cold, and what was deleted comes back, once",
        micro::micro_cached_cold,
    ),
    case(
        "micro-budget",
        "at the warning level results are cleared down to a budget, if enough comes free, but for the newest",
        micro::micro_budget,
    ),
    case(
        "micro-api",
        "edits on the API's side: results down to what is kept, of Edit and Write the whole call",
        micro::micro_api,
    ),
    case(
        "micro-api-thinking",
        "after an idle hour only the thinking of the last turn stays",
        micro::micro_api_thinking,
    ),
    case(
        "notes-gate",
        "notes: not before the first size; then growth, and calls or a quiet response",
        notes::notes_gate,
    ),
    case(
        "notes-keep-covered",
        "compaction by notes keeps what they do not cover; a file read before that is restored",
        notes::notes_keep_covered,
    ),
    case(
        "notes-keep-messages",
        "more is kept until there are enough messages with text; a file that stays visible is not restored",
        notes::notes_keep_messages,
    ),
    case(
        "notes-keep-cap",
        "nothing more is kept at the cap, but a result is not parted from its call",
        notes::notes_keep_cap,
    ),
    case(
        "notes-keep-thinking",
        "a response that is kept is kept with its thinking",
        notes::notes_keep_thinking,
    ),
    case(
        "notes-not-usable",
        "notes that would leave the window at the threshold give way to a full compaction",
        notes::notes_not_usable,
    ),
    case(
        "notes-empty",
        "notes that were never written give way to a full compaction",
        notes::notes_empty,
    ),
    case(
        "notes-floor",
        "what is kept never reaches over the last boundary",
        notes::notes_floor,
    ),
    case(
        "restore-cut",
        "files read last come back, newest first, each once, no memories, five at most, large ones cut",
        compaction::restore_cut,
    ),
    case(
        "restore-skip",
        "large files do not come back, nor what the budget does not hold, but they take their places",
        compaction::restore_skip,
    ),
    case(
        "recompaction",
        "a full compaction, and another one as soon as the window is full again",
        compaction::recompaction,
    ),
    case(
        "manual-whole",
        "a recorded manual boundary is followed with a summary of the policy's size",
        compaction::manual_whole,
    ),
    case(
        "manual-up-to",
        "the user has everything up to a message summarised; a call stays with its result",
        compaction::manual_up_to,
    ),
    case(
        "manual-from",
        "the user has everything from a message on summarised; the cache of what stays is kept",
        compaction::manual_from,
    ),
    case(
        "boundary-in-step",
        "a recorded automatic boundary where the policy is due too: its sizes are taken",
        compaction::boundary_in_step,
    ),
    case(
        "too-long-known",
        "a prompt too long to summarise drops the oldest rounds that cover the excess",
        compaction::too_long_known,
    ),
    case(
        "too-long-unknown",
        "with an unknown excess a fifth of the rounds, one at least, is dropped a try",
        compaction::too_long_unknown,
    ),
    case(
        "too-long-blocked",
        "nothing is left to drop: the compaction fails, the API refuses the prompt, the session is blocked",
        compaction::too_long_blocked,
    ),
    case(
        "no-gain",
        "a summary that makes the window no smaller is a failure",
        compaction::no_gain,
    ),
    case(
        "breaker",
        "three failures in a row open the breaker; a success closes it; a smaller window by override",
        compaction::breaker,
    ),
    case(
        "reactive",
        "without automatic compaction a refused prompt is compacted and sent again",
        compaction::reactive,
    ),
    case(
        "subagent-apart",
        "a sub-agent's compaction leaves the main window and its cache alone",
        around::subagent_apart,
    ),
    case(
        "cache-five-minutes",
        "reads and writes of a five-minute cache: first, warm, expired, another model",
        around::cache_five_minutes,
    ),
    case(
        "cache-hour",
        "a cache of an hour lives over 40 minutes and not over 61",
        around::cache_hour,
    ),
    case(
        "levels",
        "threshold by percentage; warning and error levels below it",
        around::levels,
    ),
    case(
        "extract-turns",
        "memories are extracted at every second end of a turn",
        around::extract_turns,
    ),
];

/// Cases that were added later; see `LATER_CASES` in `cases`.
pub(crate) const LATER_CASES: &[CorpusCase] = &[
    case(
        "notes-running",
        "notes that are still being written when a compaction is due give way to a full one",
        notes::notes_running,
    ),
    case(
        "notes-late",
        "notes that took long but are done by then are used",
        notes::notes_late,
    ),
    case(
        "notes-stale",
        "an update of the notes that runs too long is given up",
        notes::notes_stale,
    ),
    case(
        "restore-skills",
        "invoked skills come back, newest first, each cut, until the budget is spent",
        compaction::restore_skills,
    ),
    case(
        "extract-own-memory",
        "no extraction at the end of a turn in which the agent wrote a memory itself; reading one does not count",
        around::extract_own_memory,
    ),
    case(
        "orphan-result",
        "a result that comes after a compaction dropped its call is left out: no window holds it without the call",
        compaction::orphan_result,
    ),
    case(
        "restore-current",
        "files that were read in part, written or edited come back whole; a large one only as a reference",
        restored::restore_current,
    ),
    case(
        "restore-stub",
        "a read that only says \"unchanged\" does not make its file visible",
        restored::restore_stub,
    ),
    case(
        "restore-states",
        "plan mode, to-do list, agents and announcements come back each by itself, with their sizes in the log",
        restored::restore_states,
    ),
    case(
        "restore-skill-listing",
        "the listing of skills comes back only if the policy says so",
        restored::restore_skill_listing,
    ),
    case(
        "notes-plan-only",
        "a compaction by notes restores the plan and nothing else",
        restored::notes_plan_only,
    ),
    case(
        "compact-strip",
        "an image and the listing of skills leave before a summary that does not share the cache",
        restored::compact_strip,
    ),
    case(
        "compact-shared",
        "a compaction that shares the cache has no limit to its output",
        restored::compact_shared,
    ),
    case(
        "compact-fallback",
        "a compaction that cannot share the cache reads nothing and writes 20,000 at most",
        restored::compact_fallback,
    ),
    case(
        "hook-output",
        "hooks add instructions to a compaction and output after it",
        restored::hook_output,
    ),
    case(
        "hook-veto",
        "a hook forbids a compaction; that does not count for the breaker",
        restored::hook_veto,
    ),
    case(
        "autonomous",
        "an agent without a user gets a longer text around the summary",
        restored::autonomous,
    ),
    case(
        "nested-memory",
        "instructions of a folder come back when a file below it is touched",
        restored::nested_memory,
    ),
    case(
        "notes-edits",
        "an update of the notes writes what they gain, and sends what they were",
        client::notes_edits,
    ),
    case(
        "notes-need-auto",
        "no notes without automatic compaction",
        client::notes_need_auto,
    ),
    case(
        "notes-resume",
        "a restarted session reads its notes",
        client::notes_resume,
    ),
    case(
        "notes-waited",
        "a compaction waits for notes that will be done soon",
        notes::notes_waited,
    ),
    case(
        "recall",
        "memories are chosen at every prompt, up to a limit that a boundary resets",
        client::recall,
    ),
    case(
        "extract-calls",
        "an extraction of two calls: the second reads what the first one wrote to the cache",
        client::extract_calls,
    ),
    case(
        "extract-waits",
        "of the turns that end while an extraction runs only the newest is extracted",
        client::extract_waits,
    ),
    case(
        "extract-drain",
        "the end of a session waits for an extraction",
        client::extract_drain,
    ),
    case(
        "own-calls",
        "calls of the client itself are never compacted",
        client::own_calls,
    ),
    case(
        "micro-cached-stale",
        "a fall of cache reads ends deletions on the server",
        client::micro_cached_stale,
    ),
    case(
        "micro-api-least",
        "edits on the API's side that free too little do not happen",
        micro::micro_api_least,
    ),
    case(
        "micro-target",
        "a caller clears down to a target of its own",
        client::micro_target,
    ),
    case(
        "reads-needed",
        "an edit of a file whose read was cleared needs a read first",
        client::reads_needed,
    ),
    case(
        "later-lines",
        "the estimate counts later lines of the last response",
        client::later_lines,
    ),
];

/// Cases that are seeded by their names: new ones go here, in any order.
pub(crate) const NAMED_CASES: &[CorpusCase] = &[
    case(
        "keep-tail",
        "a summary that keeps the newest messages up to a budget: a result stays with its call",
        keep::keep_tail,
    ),
    case(
        "keep-prompts",
        "a summary that keeps the newest prompts of the user, and summarizes them, too",
        keep::keep_prompts,
    ),
    case(
        "client-trail-user",
        "2.1.45 to 2.1.56 estimate user blocks after the last response, without padding",
        clients::trail_of_user_blocks,
    ),
    case(
        "client-trail-text",
        "2.1.57 to 2.1.72 also estimate the text of its later lines",
        clients::trail_of_texts,
    ),
    case(
        "client-trail-all",
        "from 2.1.73 on all its later lines and attachments are estimated",
        clients::trail_of_all_lines,
    ),
    case(
        "client-usage-last-line",
        "usage on the last line of a response only: that line is counted from",
        clients::usage_on_last_line,
    ),
    case(
        "client-fresh-ids",
        "a fork with a fresh id on every line, and an API id replayed under another request: each call counts once",
        clients::fresh_ids,
    ),
    case(
        "client-summarizer",
        "the log of the client's own summarizer: its boundary is a copy, its call is a cost of compaction",
        clients::summarizer_log,
    ),
    case(
        "client-images",
        "a micro-compaction of images is listed apart",
        clients::images_cleared,
    ),
    case(
        "client-model-switch",
        "a boundary at a switch of the model is judged by the new model's window",
        clients::model_switch,
    ),
    case(
        "client-foreign-windows",
        "models of other vendors: a window by its own boundary, an unknown one, one from the table",
        clients::foreign_windows,
    ),
    case(
        "client-mid-session",
        "a log without its beginning: unrecorded history is no part of the base",
        clients::mid_session,
    ),
    case(
        "cache-held-life",
        "what the cache holds expires by its own lifetime, not by that of what the next call writes",
        around::cache_held_life,
    ),
    case(
        "client-off-chain",
        "a predicted compaction on a branch that the user left is no spurious one",
        clients::boundary_off_chain,
    ),
    case(
        "client-auto-off",
        "prompts that pass the threshold again and again are no wrong predictions: automatic compaction was off",
        unusual::auto_off,
    ),
    case(
        "client-higher-threshold",
        "an automatic compaction far above the threshold that prompts had passed before: another one was in force",
        unusual::higher_threshold,
    ),
    case(
        "client-lower-threshold",
        "an automatic compaction far below the threshold: another one was in force",
        unusual::lower_threshold,
    ),
    case(
        "client-usage-guess",
        "a gateway that guesses usage on all lines but the last: the last one is counted from",
        unusual::usage_guessed,
    ),
    case(
        "client-bare-usage",
        "a gateway without request ids and cache counts, and another vendor's window of 128,000",
        unusual::bare_usage,
    ),
    case(
        "client-unrecorded",
        "a client that recorded no boundaries: what is predicted is not wrong",
        unusual::unrecorded_boundaries,
    ),
    case(
        "client-large-name",
        "a model whose name states a window of a million tokens, under an old client",
        unusual::large_by_name,
    ),
    case(
        "client-manual-early",
        "the user compacts just below the threshold",
        unusual::manual_before_threshold,
    ),
    case(
        "client-made-up-response",
        "a response that the client made up is not counted from",
        unusual::made_up_response,
    ),
    case(
        "client-mid-session-full",
        "a log that starts one call before a compaction",
        unusual::full_from_the_start,
    ),
    case(
        "client-foreign-subagent",
        "a sub-agent on another vendor's model, whose window is not the client's",
        unusual::foreign_subagent,
    ),
];
