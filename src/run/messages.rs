//! The words of logs, which the packed form does not hold: read from the logs themselves, either those of one chain, or those
//! of all logs one message at a time.

use crate::run::Run;
use crate::run::fetching::{fetch_log, fetched_bytes, is_remote, map_fetched};
use crate::run::read::{ReadOptions, default_session, read_problem};
use crate::run::session_view::SessionView;
use notes::conversation::{CONVERSATION_FILTER, Conversation, chain_lines};
use transcript::agents::{AgentReader, CanonicalConsumer, CanonicalLines};
use transcript::bytes::{LineConsumer, LogFile, SourceFault};
use transcript::discover::DiscoveredLog;
use transcript::log::LineProblemKind;
use transcript::messages::{Message, MessageReader, PartSelection, SessionTitle, title_of};
use transcript::parallel::parallel_map;
use transcript::problem::Problem;

impl SessionView<'_> {
    /// Reads the words of a chain, by number. Also returns the logs that could not be read again.
    pub fn read_conversation(&self, chain: usize) -> (Conversation, Vec<Problem>) {
        self.read_conversation_parts(chain, CONVERSATION_FILTER)
    }

    /// [`SessionView::read_conversation`] with only the parts that are selected.
    pub fn read_conversation_parts(&self, chain: usize, wanted_parts: PartSelection) -> (Conversation, Vec<Problem>) {
        let chain = &self.chains()[chain];
        let (mut problems, mut read, mut titles) = (Vec::new(), Vec::new(), Vec::new());
        for wanted in chain_lines(self.session(), chain) {
            let (messages, found, problem) = match &self.planned {
                Some(planned) => planned.run.read_lines(&wanted.path, wanted.lines, wanted_parts),
                None => Default::default(),
            };
            problems.extend(problem);
            read.push((wanted.part, messages));
            titles.extend(found);
        }
        let mut conversation = Conversation::new(self.session(), chain, read);
        title_of(&titles, self.id()).clone_into(&mut conversation.title);
        (conversation, problems)
    }
}

impl Run {
    /// Reads the messages of some lines of a log, by number and ascending, and the titles of its sessions.
    fn read_lines(
        &self,
        path: &str,
        lines: Vec<u64>,
        wanted: PartSelection,
    ) -> (Vec<Message>, Vec<SessionTitle>, Option<Problem>) {
        let by_path = self.by_path.get_or_init(|| {
            let paths = self.outlines.iter().map(|outline| outline.path.clone());
            paths.zip(0..).collect()
        });
        let Some(found) = by_path.get(path).map(|at: &usize| &self.logs[*at]) else {
            return Default::default();
        };
        let mut reader = MessageReader::new(wanted, self.limits.max_line, &|_| ()).with_only_lines(lines);
        let mut lines = AgentReader::new(&mut reader);
        let done = LogFile::open_found(found, self.io).and_then(|open| open.read(0..u64::MAX, self.limits, &mut lines));
        lines.finish();
        reader.finish();
        // Problems with lines were reported when the log was read the first time.
        match done {
            Err(error) if SourceFault::of(&error).is_some() => {
                (Vec::new(), Vec::new(), Some(read_problem(path, found.packing, &error)))
            }
            done => {
                let problem = done.err().map(|error| read_problem(path, found.packing, &error));
                (reader.messages, reader.titles, problem)
            }
        }
    }
}

/// Reads the messages of all logs, log by log in the order given. Also returns what was wrong with the logs.
pub fn read_messages(
    logs: &[DiscoveredLog],
    wanted: PartSelection,
    options: &ReadOptions<'_>,
) -> (Vec<Message>, Vec<Problem>) {
    let search = MessageSearch {
        selection: wanted,
        filter: &|_| true,
        take: &|_, message| Some(message),
    };
    let (messages, _, problems) = search_messages(logs, &search, options);
    (messages, problems)
}

/// What is looked for in the messages of logs.
pub struct MessageSearch<'l, T> {
    /// What is read beside the texts.
    pub selection: PartSelection,
    /// Whether a line may hold it.
    pub filter: &'l (dyn Fn(&[u8]) -> bool + Sync),
    /// Takes what it needs of a message; the number is that of the log.
    pub take: &'l (dyn Fn(usize, Message) -> Option<T> + Sync),
}

/// Looks through the messages of all logs and returns what was taken, log by log in the order given; messages are dropped as
/// soon as they were looked at, so that memory holds only what was taken. Also returns how many messages there were, and what
/// was wrong with the logs.
pub fn search_messages<T: Send>(
    logs: &[DiscoveredLog],
    search: &MessageSearch<'_, T>,
    options: &ReadOptions<'_>,
) -> (Vec<T>, u64, Vec<Problem>) {
    let read_one = |number: usize, found: &DiscoveredLog| {
        let path = found.path.display().to_string();
        let session = default_session(found);
        let reader = MessageReader::new(search.selection, options.limits.max_line, options.progress);
        let mut searcher = MessageSearcher {
            reader: reader.with_filter(search.filter),
            take: &|mut message: Message| {
                if message.session.is_empty() {
                    message.session.clone_from(&session);
                }
                match options.messages {
                    Some(filter) if !filter.takes(&message) => None,
                    _ => (search.take)(number, message),
                }
            },
            taken: Vec::new(),
            read: 0,
        };
        let mut lines = AgentReader::new(&mut searcher);
        let done =
            LogFile::open_found(found, options.io).and_then(|open| open.read(0..u64::MAX, options.limits, &mut lines));
        lines.finish();
        searcher.end_log();
        let mut problems = Problem::lines(&path, &searcher.reader.problems).collect::<Vec<_>>();
        if let Err(error) = done {
            let problem = read_problem(&path, found.packing, &error);
            // What a store delivered of a log before it failed is not the log.
            if SourceFault::of(&error).is_some() {
                return (Vec::new(), 0, vec![problem]);
            }
            problems.push(problem);
        }
        (searcher.taken, searcher.read + searcher.reader.filtered_out, problems)
    };
    let numbers = (0..logs.len()).collect::<Vec<_>>();
    let read = match logs.iter().any(is_remote) {
        true => map_fetched(
            &numbers,
            |number| fetched_bytes(&logs[number]),
            |number| fetch_log(&logs[number]),
            |number, found| read_one(number, &found),
        ),
        false => parallel_map(&numbers, |&number| read_one(number, &logs[number])),
    };
    let (mut taken, mut count, mut problems) = (Vec::new(), 0, Vec::new());
    for (found, read, wrong) in read {
        taken.extend(found);
        count += read;
        problems.extend(wrong);
    }
    (taken, count, problems)
}

/// Hands on messages as they are read.
struct MessageSearcher<'l, T> {
    reader: MessageReader<'l>,
    take: &'l dyn Fn(Message) -> Option<T>,
    taken: Vec<T>,
    read: u64,
}

impl<T> MessageSearcher<'_, T> {
    /// Takes the messages that can only be read once the log has ended.
    fn end_log(&mut self) {
        self.reader.finish();
        self.take_messages();
    }

    fn take_messages(&mut self) {
        self.read += self.reader.messages.len() as u64;
        let messages = self.reader.messages.drain(..);
        self.taken.extend(messages.filter_map(|message| (self.take)(message)));
    }
}

impl<T> CanonicalConsumer for MessageSearcher<'_, T> {
    fn take_canonical(&mut self, lines: &CanonicalLines) {
        self.reader.take_canonical(lines);
        self.take_messages();
    }

    fn add_line_problem(&mut self, kind: LineProblemKind, line: u64, offset: u64) {
        self.reader.add_line_problem(kind, line, offset);
    }

    fn count_source(&mut self, lines: u64, bytes: u64) {
        self.reader.count_source(lines, bytes);
    }

    fn max_line(&self) -> usize {
        self.reader.max_line()
    }
}

impl<T> LineConsumer for MessageSearcher<'_, T> {
    fn take_lines(&mut self, bytes: &[u8], offset: u64) {
        self.reader.take_lines(bytes, offset);
        self.take_messages();
    }

    fn skip_long_line(&mut self, offset: u64, length: u64, head: &[u8]) {
        self.reader.skip_long_line(offset, length, head);
    }
}
