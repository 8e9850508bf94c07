//! `backcast notes`: the notes of every session as they would stand at its end, and the summary of a compaction.

mod outcome;
mod texts;

use crate::cli::backend::BackendArgs;
use crate::cli::{InputArgs, PolicyArgs, PrintArgs};
use crate::commands::RunStatus;
use crate::commands::backend::open_model;
use crate::commands::given::GivenOptions;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::report_problems;
use crate::commands::report::read_notes_folder;
use crate::commands::terminal::notice;
use crate::commands::writing::{ensure_absent_or_page, load_prices, write_output, write_page};
use crate::page::PageContent;
use crate::run::{LogNeeds, with_logs};
use crate::views::notes::{limit_warnings, write_list};
use anyhow::{Context, Result, bail};
use clap::Args;
use notes::SummaryVariant;
use notes::template::NotesTemplate;
use std::path::{Path, PathBuf};
use texts::NotesRun;

/// Name of the page.
const PAGE: &str = "notes";

/// Arguments of `notes`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every session gets PROJECT/SESSION/session-memory/summary.md below the folder: ten sections, from the title to the worklog,
as things stand when the session ends. With --gated they stop at the last update of the live system, which updates notes when
the window has grown enough (policy values notes.first, notes.growth and notes.calls). They are taken from the session
itself, without a model: what was asked, changed, run, refused, failed, fixed, committed, decided and answered, in the words
of the log, secrets masked. Only final states are shown: a failure that a later success closed is not open, a refused call
did not run. Sub-agents and rewound branches are left out.

An existing file is continued: what a person wrote into it stays, what they deleted stays deleted. Summaries and histories are
written whole; one that was edited since is left alone and reported (--problems). --force writes all of them again.

With --backend anthropic a model writes them, each update based on the previous one; the program still enforces headings, limits
and the user's messages. Without --history, one update stands for several where they fit.

With --summary there is also compact.md: the nine sections that would replace the history after a compaction, with every message
of the user in full.

Examples:
  backcast notes --out notes/                             your own sessions
  backcast notes logs/ --out notes/ --gated               what the live system would have had
  backcast notes logs/ --out notes/ --history             also the notes after every update
  backcast notes log.jsonl --out notes/ --summary         also what a compaction now would leave
  backcast notes logs/ --out notes/ --summary --backend anthropic --estimate    what a model would cost
  backcast notes log.jsonl --out notes/ --up-to 0c97beba-bfcb-4f84-9950-e0354bfc808b")]
pub struct NotesArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Folder for the notes; created if missing.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: PathBuf,
    /// Also write the notes after every update: session-memory/history/0001.md and so on; with --summary also a summary at
    /// every recorded compaction.
    #[arg(long, help_heading = "Output")]
    pub history: bool,
    /// Stop at the last update that the live system would have made, instead of the end of the session.
    #[arg(long, help_heading = "Output")]
    pub gated: bool,
    /// The default since notes go to the end of the session.
    #[arg(long, hide = true, conflicts_with = "gated")]
    pub to_end: bool,
    /// Also write the summary of a compaction: of everything since the last recorded one.
    #[arg(long, help_heading = "Output")]
    pub summary: bool,
    /// Summarize from this message on; earlier ones would stay. Only sessions with that message are read. Any record of the
    /// main conversation works: one without words of its own (thinking, for example) stands for the message next to it.
    #[arg(long, value_name = "UUID", conflicts_with = "up_to", help_heading = "Output")]
    pub from: Option<String>,
    /// Summarize up to this message; later ones would stay. Otherwise like --from.
    #[arg(long, value_name = "UUID", help_heading = "Output")]
    pub up_to: Option<String>,
    /// Instructions for the summary, as a user gives them with `/compact`. Needs --summary, --from or --up-to.
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = "Output")]
    pub instructions: String,
    /// Sections to use instead of the ten: a Markdown file with headings and a description in italics below each.
    /// `{{session}}` and `{{project}}` are filled in.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub template: Option<PathBuf>,
    /// Instructions for the update, for backends that ask a model. `{{session}}`, `{{project}}`, `{{notes_path}}` and
    /// `{{current_notes}}` are filled in.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub prompt: Option<PathBuf>,
    /// Also write all notes and summaries in the folder as one HTML page. Replaces an earlier page of notes, but never any
    /// other file.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Replace existing notes instead of continuing them, and summaries that were edited.
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// Which policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
    /// What is printed.
    #[command(flatten)]
    pub print: PrintArgs,
}

impl NotesArgs {
    /// Returns whether a summary is wanted.
    pub fn wants_summary(&self) -> bool {
        self.summary || self.from.is_some() || self.up_to.is_some()
    }

    /// Returns the record that `--from` or `--up-to` names.
    fn pivot(&self) -> Option<(&str, SummaryVariant)> {
        let from = self.from.as_deref().map(|uuid| (uuid, SummaryVariant::From));
        from.or(self.up_to.as_deref().map(|uuid| (uuid, SummaryVariant::UpTo)))
    }
}

/// Runs it.
pub fn run(args: &NotesArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    // --force is about what people wrote; a page holds nothing of their own, and must not need it.
    if let Some(page) = &args.html {
        ensure_absent_or_page(page, PAGE)?;
    }
    let mut policies = resolve_policy(&args.policy)?;
    if policies.origins.get("notes.on").is_none_or(|origin| origin != "--set") {
        // The command writes notes also where the recorded client kept none.
        policies.assign("notes.on=true", "backcast notes")?;
    }
    if !args.instructions.is_empty() && !args.wants_summary() {
        bail!("--instructions needs --summary, --from or --up-to\n  hint: add --summary");
    }
    let prices = load_prices(args.policy.prices.as_deref())?;
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    let template = args.template.as_deref().map(read).transpose()?;
    if template
        .as_deref()
        .is_some_and(|text| NotesTemplate::parse(text).sections.is_empty())
    {
        bail!(
            "the template has no section\n  hint: a section starts with a heading, `# Name`, followed by a description in italics"
        );
    }
    let (cache, remembers) = (args.input.cache_dir.as_deref(), !args.input.no_cache);
    let model = open_model(&args.model, given, cache, remembers, args.input.quiet)?;
    let prompt = args.prompt.as_deref().map(read).transpose()?;
    if let Some(path) = args.prompt.as_deref().filter(|_| model.is_none()) {
        notice!("{}: has no effect without --backend anthropic", path.display());
    }
    let run = NotesRun {
        args,
        policies: &policies,
        prices: &prices,
        template: template.as_deref(),
        model: model.as_ref(),
        prompt: prompt.as_deref(),
        root: std::path::absolute(&args.out).with_context(|| args.out.display().to_string())?,
    };
    let needs = LogNeeds {
        windows: true,
        texts: true,
        ..LogNeeds::default()
    };
    let outcome = with_logs(args.input.shown_as_table(args.print.shows_table()), needs, |source| {
        run.write_notes(&source)
    });
    if let Some(model) = &model {
        model.print_spending();
    }
    let Some(outcome) = outcome?? else {
        return Ok(RunStatus::Done);
    };
    if let Some((uuid, _)) = args.pivot()
        && outcome.rows.is_empty()
    {
        match outcome.elsewhere {
            Some(place) => bail!("{uuid} is not part of a main conversation: {place}"),
            None => bail!("no session contains the message {uuid}"),
        }
    }
    write_output(&args.print, |out, style| {
        write_list(&outcome.rows, args.print.format, args.print.top, &args.out, style, out)
    })?;
    if !args.input.quiet {
        for warning in limit_warnings(&outcome.rows) {
            notice!("{warning}");
        }
    }
    if let Some(path) = &args.html {
        let content = PageContent {
            name: PAGE.to_owned(),
            notes: if run.root.exists() {
                read_notes_folder(&run.root)?
            } else {
                Vec::new()
            },
            with_text: true,
            ..PageContent::default()
        };
        write_page(path, true, args.input.quiet, content)?;
    }
    let ending = report_problems(&args.input, &outcome.problems);
    outcome.ensure_complete().map(|()| ending)
}
