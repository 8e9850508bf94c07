//! What a session used again, with the window seen as a cache.
//!
//! An edit uses the lines that it replaces; a write uses any copy of the file; a read fetches. For each of them this module
//! lists the items that held what was needed (its *holders*), so a replay only has to check whether one of them is still
//! in the window. Nothing here depends on a policy.

use crate::sim::trace::{NONE, Trace, flag};
use crate::tokens::ledger::Category;
use std::cmp::Ordering;
use std::ops::Range;
use transcript::build::IdMap;
use transcript::line_hashes::{LineSet, TextRole, name_hash};
use transcript::log::BlockKind;
use transcript::thread::{Node, Session};
use transcript::tools::tool_role;

/// Number of newest holders that are listed for a line or a file. Older holders leave the window before newer ones, except
/// where the user summarizes from a message on.
const MAX_HOLDERS: usize = 16;

/// Most lines that a read without a limit returns.
const DEFAULT_READ_LINES: u32 = 2000;

/// Lists of items, stored in one allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemLists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl ItemLists {
    /// Adds a list, newest item first, and returns its number.
    pub fn add(&mut self, items: impl IntoIterator<Item = u32>) -> u32 {
        self.starts.push(self.items.len() as u32);
        self.items.extend(items);
        self.starts.len() as u32 - 1
    }

    /// Returns a list by its number, newest item first.
    pub fn get(&self, number: u32) -> &[u32] {
        let at = number as usize;
        let end = self.starts.get(at + 1).map_or(self.items.len(), |end| *end as usize);
        &self.items[self.starts[at] as usize..end]
    }
}

/// An edit or a write of a file that the session had seen before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUse {
    /// The call whose response contains it.
    pub call: u32,
    /// The tool call item.
    pub item: u32,
    /// Index of the path in the trace.
    pub path: u32,
    /// Lists of holders: one per distinct line of an edit, a single one with all copies of the file for a write.
    pub lines: Range<u32>,
    /// Tokens between the use and what it needs; nine tenths of the lines are no farther away.
    pub distance: u32,
    /// Index into [`USE_TOOLS`].
    pub tool: u8,
}

/// Tools whose calls use files.
pub const USE_TOOLS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", WRITE];

const WRITE: &str = "Write";

/// A mention of a known file in a prompt, in the model's text, or in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReference {
    /// The call whose input or response mentions it.
    pub call: u32,
    /// Index of the path in the trace.
    pub path: u32,
    /// Number of the list of all copies of the file.
    pub copies: u32,
}

/// A read of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFetch {
    /// The call whose response contains it.
    pub call: u32,
    /// The result item.
    pub item: u32,
    /// Index of the path in the trace.
    pub path: u32,
    /// Number of the list of earlier reads that cover the range in the same version.
    pub same: u32,
    /// Number of the list of earlier reads that cover the range in an older version.
    pub patched: u32,
    /// Number of the list of all earlier reads of the file.
    pub any: u32,
}

/// All file uses of a chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileUses {
    /// Edits and writes, in order.
    pub uses: Vec<FileUse>,
    /// Reads, in order.
    pub fetches: Vec<FileFetch>,
    /// Mentions, in order; each file at most once per call.
    pub references: Vec<FileReference>,
    /// The lists of holders that the others refer to.
    pub lists: ItemLists,
    /// Number of edits of known files whose lines the log never showed.
    pub cold: u32,
}

impl FileUses {
    /// Returns the uses of a call.
    pub fn of_call(&self, call: u32) -> &[FileUse] {
        with_key(&self.uses, call, |one| one.call)
    }
}

/// A position in the lists of [`FileUses`]. A replay asks for the calls in order, so no list has to be searched.
#[derive(Debug, Default)]
pub struct UsesCursor {
    uses: usize,
    references: usize,
    fetches: usize,
}

impl UsesCursor {
    /// Returns the edits and writes of a call.
    pub fn uses<'u>(&mut self, uses: &'u FileUses, call: u32) -> &'u [FileUse] {
        advance(&uses.uses, &mut self.uses, |one| one.call.cmp(&call))
    }

    /// Returns the mentions of a call.
    pub fn references<'u>(&mut self, uses: &'u FileUses, call: u32) -> &'u [FileReference] {
        advance(&uses.references, &mut self.references, |one| one.call.cmp(&call))
    }

    /// Returns the reads of a call.
    pub fn fetches<'u>(&mut self, uses: &'u FileUses, call: u32) -> &'u [FileFetch] {
        advance(&uses.fetches, &mut self.fetches, |one| one.call.cmp(&call))
    }
}

/// Skips the entries before a call and returns those of the call; `order` compares an entry's call with it.
#[inline]
fn advance<'l, T>(list: &'l [T], next: &mut usize, order: impl Fn(&T) -> Ordering) -> &'l [T] {
    let mut pass = |wanted: Ordering| {
        while list.get(*next).is_some_and(|one| order(one) == wanted) {
            *next += 1;
        }
        *next
    };
    let start = pass(Ordering::Less);
    &list[start..pass(Ordering::Equal)]
}

/// Returns the entries with the given key, from a list sorted by that key.
fn with_key<T>(list: &[T], key: u32, key_of: impl Fn(&T) -> u32) -> &[T] {
    let start = list.partition_point(|one| key_of(one) < key);
    let length = list[start..].partition_point(|one| key_of(one) == key);
    &list[start..start + length]
}

/// Finds the file uses of a chain by the line hashes of the session's logs.
pub fn find_file_uses(session: &Session<'_>, trace: &Trace) -> FileUses {
    let mut finder = UseFinder {
        session,
        trace,
        texts: texts(session, trace),
        found: FileUses::default(),
        holders: IdMap::default(),
        files: IdMap::default(),
        names: IdMap::default(),
        shell_changes: 0,
        before: tokens_before(trace),
    };
    for (at, call) in trace.calls.iter().enumerate() {
        finder.find_references(at as u32, call.inputs.clone());
        finder.learn(call.inputs.clone());
        finder.find_edits(at as u32, call.response.clone());
        finder.find_references(at as u32, call.response.clone());
        finder.learn(call.response.clone());
    }
    finder.learn(trace.tail.clone());
    finder.found.fetches.sort_by_key(|fetch| (fetch.call, fetch.item));
    finder.found
}

/// Returns the record of an item.
pub fn item_node(trace: &Trace, item: u32) -> Option<Node> {
    let at = trace
        .nodes
        .partition_point(|(first, _)| *first <= item)
        .checked_sub(1)?;
    Some(trace.nodes[at].1)
}

/// Returns the line hashes of the texts of an item.
pub fn lines_of_item<'e>(session: &Session<'e>, trace: &Trace, item: u32) -> impl Iterator<Item = &'e LineSet> {
    let at = trace.nodes.partition_point(|(first, _)| *first <= item).checked_sub(1);
    let sets = at.map_or(&[][..], |at| {
        let (first, node) = trace.nodes[at];
        let block = session.record(node).first_block + (item - first);
        with_key(&session.part(node).lines.sets, block, |set| set.block)
    });
    sets.iter()
}

/// The line hashes of a text, and the item that contains it.
struct ItemText<'e> {
    item: u32,
    role: TextRole,
    lines: &'e [u32],
}

/// Returns all texts of a trace that have line hashes, sorted by item.
fn texts<'e>(session: &Session<'e>, trace: &Trace) -> Vec<ItemText<'e>> {
    let mut texts = Vec::new();
    for &(first, node) in &trace.nodes {
        let evidence = &session.part(node).lines;
        let record = session.record(node);
        let start = evidence.sets.partition_point(|set| set.block < record.first_block);
        let sets = evidence.sets[start..]
            .iter()
            .take_while(|set| set.block < record.first_block + record.blocks);
        texts.extend(sets.map(|set| ItemText {
            item: first + (set.block - record.first_block),
            role: set.role,
            lines: &set.lines,
        }));
    }
    texts
}

fn texts_of<'t, 'e>(texts: &'t [ItemText<'e>], item: u32) -> &'t [ItemText<'e>] {
    with_key(texts, item, |text| text.item)
}

/// Returns for each item the tokens of all items before it, and at the end the sum of all.
fn tokens_before(trace: &Trace) -> Vec<u64> {
    let mut sum = 0;
    let mut before = Vec::with_capacity(trace.items.len() + 1);
    for item in &trace.items {
        before.push(sum);
        sum += u64::from(item.tokens);
    }
    before.push(sum);
    before
}

/// Version of a file, as far as the log shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    /// Edits by the agent.
    edits: u32,
    /// Shell commands that may have changed any file.
    shell_changes: u32,
}

/// An earlier read of a file.
struct KnownRead {
    item: u32,
    version: FileVersion,
    lines: Range<u32>,
}

/// What the log shows of a file up to some item.
#[derive(Default)]
struct KnownFile {
    edits: u32,
    reads: Vec<KnownRead>,
    /// Items that contain some of the file.
    copies: Vec<u32>,
}

struct UseFinder<'a, 'e> {
    session: &'a Session<'a>,
    trace: &'a Trace,
    texts: Vec<ItemText<'e>>,
    found: FileUses,
    /// Items by line hash, oldest first.
    holders: IdMap<u64, Vec<u32>>,
    files: IdMap<u64, KnownFile>,
    /// Paths by the hash of each of their suffixes; [`NONE`] for a suffix that several paths share.
    names: IdMap<u64, u32>,
    shell_changes: u32,
    /// See [`tokens_before`].
    before: Vec<u64>,
}

impl UseFinder<'_, '_> {
    /// Registers items that join the conversation.
    fn learn(&mut self, items: Range<u32>) {
        for at in items {
            let is_failed_edit = self.is_failed_edit(at);
            for text in texts_of(&self.texts, at) {
                // The old text of a failed edit is what the model believed, not what the file says.
                let is_evidence = match text.role {
                    TextRole::Named => false,
                    TextRole::Replaced => !is_failed_edit,
                    TextRole::Shown | TextRole::Written => true,
                };
                let lines = text.lines.iter().filter(|_| is_evidence);
                for line in lines {
                    let holders = self.holders.entry(u64::from(*line)).or_default();
                    if holders.last() != Some(&at) {
                        holders.push(at);
                    }
                }
            }
            self.learn_file(at);
        }
    }

    /// Returns whether an item is an edit that the tool refused.
    fn is_failed_edit(&self, at: u32) -> bool {
        let item = &self.trace.items[at as usize];
        let result = || self.trace.items.get(item.pair as usize);
        item.category == Category::ToolCall && result().is_some_and(|result| result.has_flag(flag::ERROR))
    }

    /// Returns whether an item shows another file than `path`: it is a read, an edit or a write of that file, or attaches it.
    fn is_about_other_file(&self, at: u32, path: u32) -> bool {
        let item = &self.trace.items[at as usize];
        let tool = self.trace.tools[usize::from(item.tool)].as_str();
        let is_file = item.category == Category::Attachment || tool == "Read" || is_use(tool);
        is_file && item.path != 0 && item.path != path
    }

    fn learn_file(&mut self, at: u32) {
        let item = &self.trace.items[at as usize];
        let tool = tool_role(&self.trace.tools[usize::from(item.tool)], item.path != 0);
        let is_failed = item.has_flag(flag::ERROR);
        match (item.category, tool) {
            (Category::ToolCall, _) => {
                self.shell_changes += u32::from(item.has_flag(flag::CHANGES_FILES));
                if is_use(tool) {
                    self.file(item.path).copies.push(at);
                }
            }
            (Category::ToolResult, "Read") if !is_failed && item.path != 0 => self.learn_read(at),
            (Category::ToolResult, _) if !is_failed && is_use(tool) => {
                self.file(item.path).edits += 1;
            }
            (Category::Attachment, _) if item.path != 0 => self.file(item.path).copies.push(at),
            _ => {}
        }
    }

    fn file(&mut self, path: u32) -> &mut KnownFile {
        if !self.files.contains_key(&u64::from(path)) {
            self.learn_name(path);
        }
        self.files.entry(u64::from(path)).or_default()
    }

    /// Registers all suffixes of a path, because a mention may use any of them.
    fn learn_name(&mut self, path: u32) {
        let text = self.trace.paths[path as usize].as_str();
        let inner = text.match_indices('/').map(|(at, _)| &text[at + 1..]);
        for suffix in std::iter::once(text).chain(inner).filter(|suffix| !suffix.is_empty()) {
            let known = self.names.entry(u64::from(name_hash(suffix))).or_insert(path);
            if *known != path {
                *known = NONE;
            }
        }
    }

    /// Finds the known files that items mention.
    fn find_references(&mut self, call: u32, items: Range<u32>) {
        let first = self.found.references.len();
        for at in items {
            let category = self.trace.items[at as usize].category;
            let is_spoken = matches!(
                category,
                Category::Human | Category::Text | Category::Thinking | Category::ToolCall
            );
            if !is_spoken {
                continue;
            }
            for name in texts_of(&self.texts, at)
                .iter()
                .filter(|text| text.role == TextRole::Named)
                .flat_map(|text| text.lines)
            {
                let path = self.names.get(&u64::from(*name)).copied().unwrap_or(NONE);
                let is_listed = self.found.references[first..].iter().any(|one| one.path == path);
                let Some(file) = self.files.get(&u64::from(path)).filter(|_| !is_listed) else {
                    continue;
                };
                if !file.copies.is_empty() {
                    let copies = self.found.lists.add(newest_holders(&file.copies));
                    self.found.references.push(FileReference { call, path, copies });
                }
            }
        }
    }

    /// Records a read: which earlier reads would have made it unnecessary, and what later reads can rely on.
    fn learn_read(&mut self, at: u32) {
        let item = &self.trace.items[at as usize];
        let (offset, limit) = self.read_range(at);
        let first = offset.max(1);
        let lines = first..first.saturating_add(if limit == 0 { DEFAULT_READ_LINES } else { limit });
        let call = self
            .trace
            .calls
            .partition_point(|call| call.response.end <= item.pair.min(at));
        let shell_changes = self.shell_changes;
        let path = item.path;
        let file = self.file(path);
        let version = FileVersion {
            edits: file.edits,
            shell_changes,
        };
        let covers = |copy: &&KnownRead| copy.lines.start <= lines.start && copy.lines.end >= lines.end;
        let newest = |copies: &mut dyn Iterator<Item = &KnownRead>| {
            let mut items = copies.map(|copy| copy.item).collect::<Vec<_>>();
            items.reverse();
            items.truncate(MAX_HOLDERS);
            items
        };
        let same = newest(&mut file.reads.iter().filter(covers).filter(|copy| copy.version == version));
        let patched = newest(&mut file.reads.iter().filter(covers).filter(|copy| copy.version != version));
        let any = newest(&mut file.reads.iter());
        file.reads.push(KnownRead {
            item: at,
            version,
            lines,
        });
        file.copies.push(at);
        let lists = &mut self.found.lists;
        let fetch = FileFetch {
            call: call as u32,
            item: at,
            path,
            same: lists.add(same),
            patched: lists.add(patched),
            any: lists.add(any),
        };
        self.found.fetches.push(fetch);
    }

    /// Returns the first line and the number of lines that a read asked for; 0 where it did not say.
    fn read_range(&self, item: u32) -> (u32, u32) {
        let nodes = &self.trace.nodes;
        let at = nodes.partition_point(|(first, _)| *first <= item).saturating_sub(1);
        let (first, node) = nodes[at];
        let block = self.session.blocks(node).get((item - first) as usize);
        block
            .filter(|block| block.kind == BlockKind::ToolResult)
            .map_or((0, 0), |block| block.range)
    }

    /// Finds the edits and writes of a response.
    fn find_edits(&mut self, call: u32, response: Range<u32>) {
        for at in response {
            let item = &self.trace.items[at as usize];
            let tool = tool_role(&self.trace.tools[usize::from(item.tool)], item.path != 0);
            let has_succeeded = item.pair != NONE && !self.trace.items[item.pair as usize].has_flag(flag::ERROR);
            if item.category != Category::ToolCall || !has_succeeded || item.path == 0 {
                continue;
            }
            let is_known = self
                .files
                .get(&u64::from(item.path))
                .is_some_and(|file| !file.copies.is_empty());
            if !is_known {
                continue;
            }
            let Some(number) = USE_TOOLS.iter().position(|known| *known == tool) else {
                continue;
            };
            let lists = if tool == WRITE {
                let copies = &self.files[&u64::from(item.path)].copies;
                vec![newest_holders(copies)]
            } else {
                self.edited_line_holders(at)
            };
            if lists.is_empty() {
                self.found.cold += 1;
                continue;
            }
            let distance = self.distance(at, &lists);
            let first = self.found.lists.starts.len() as u32;
            for list in lists {
                self.found.lists.add(list);
            }
            self.found.uses.push(FileUse {
                call,
                item: at,
                path: item.path,
                lines: first..self.found.lists.starts.len() as u32,
                distance,
                tool: number as u8,
            });
        }
    }

    /// Returns the holders of each line that an edit replaces, without lines that the log never showed. A line that stands
    /// in another file is no evidence for this one.
    fn edited_line_holders(&self, at: u32) -> Vec<Vec<u32>> {
        let replaced = texts_of(&self.texts, at)
            .iter()
            .filter(|text| text.role == TextRole::Replaced);
        let mut lines = replaced.flat_map(|text| text.lines.iter().copied()).collect::<Vec<_>>();
        lines.sort_unstable();
        lines.dedup();
        let path = self.trace.items[at as usize].path;
        let holders = lines.iter().filter_map(|line| {
            let items = self.holders.get(&u64::from(*line))?.iter().rev().copied();
            let about = items.filter(|item| !self.is_about_other_file(*item, path));
            Some(about.take(MAX_HOLDERS).collect::<Vec<_>>()).filter(|holders| !holders.is_empty())
        });
        holders.collect()
    }

    /// Returns the distance to the newest holder that nine tenths of the lines do not exceed, in tokens.
    fn distance(&self, at: u32, lists: &[Vec<u32>]) -> u32 {
        let back = |list: &Vec<u32>| {
            let end = list.first().map_or(0, |item| self.before[*item as usize + 1]);
            self.before[at as usize].saturating_sub(end)
        };
        let mut distances = lists.iter().map(back).collect::<Vec<_>>();
        distances.sort_unstable();
        let rank = (distances.len() * 9).div_ceil(10).max(1) - 1;
        u32::try_from(distances[rank]).unwrap_or(u32::MAX)
    }
}

fn newest_holders(items: &[u32]) -> Vec<u32> {
    items.iter().rev().take(MAX_HOLDERS).copied().collect()
}

fn is_use(tool: &str) -> bool {
    USE_TOOLS.contains(&tool)
}
