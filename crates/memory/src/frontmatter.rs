//! The YAML frontmatter of topic files: finds it, reads its values, and changes one value without touching what a person
//! wrote around it. Pure.

use crate::topic::to_one_line;
use granit_parser::{Event, Parser, ScalarStyle, StrInput, StructureStyle, options};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Deepest nesting of lists and mappings; deeper frontmatter is not read.
const MAX_DEPTH: usize = 32;

/// Lines that recall looks at for frontmatter.
pub const FRONTMATTER_LINES: usize = 30;

/// Returns where the Markdown starts: behind the frontmatter; `None` if the text does not open with any.
pub fn frontmatter_end(text: &str) -> Option<usize> {
    let content = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut at = text.len() - content.len();
    for (number, line) in content.split_inclusive('\n').enumerate() {
        at += line.len();
        match (number, is_fence(line)) {
            (0, false) => return None,
            (1.., true) => return Some(at),
            _ => {}
        }
    }
    None
}

pub fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// Parses frontmatter with its fences; `None` if there is none or it is not a YAML mapping.
pub fn parse_fields(head: &str) -> Option<Map<String, Value>> {
    let fields = parse_mapping(&head[yaml_range(head)?])?;
    Some(fields.into_iter().map(|(key, node)| (key, node.value)).collect())
}

/// Returns `name`, `description` and `type` out of the first lines, for readers that need no more of a file. A value that is
/// not YAML is taken as it stands.
pub fn skim_frontmatter(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let content = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !is_fence(content.lines().next().unwrap_or_default()) {
        return found;
    }
    let lines = text.lines().take(FRONTMATTER_LINES).skip(1);
    for line in lines.take_while(|line| !is_fence(line)) {
        // Newer clients write the type inside `metadata`.
        let is_nested = line.starts_with("  ") && line.trim_start().starts_with("type:");
        let line = if is_nested { line.trim_start() } else { line };
        let Some((key @ ("name" | "description" | "type"), value)) = line.split_once(':') else {
            continue;
        };
        if is_nested && found.contains_key(key) {
            continue;
        }
        let fields = parse_mapping(&format!("{key}: {}", value.trim()));
        let value = match fields.and_then(|mut fields| Some(fields.pop()?.1.value)) {
            Some(Value::String(text)) => to_one_line(&text),
            _ => to_one_line(value),
        };
        found.insert(key.to_owned(), value);
    }
    found
}

/// Returns the frontmatter with a key set to a text, a number or a list of texts. Comments and all other lines stay. `None`
/// if no change of these lines would be read as exactly this change.
pub fn set_field(head: &str, key: &str, value: &Value) -> Option<String> {
    let mut expected = parse_fields(head)?;
    expected.insert(key.to_owned(), value.clone());
    let range = yaml_range(head)?;
    let start = range.start;
    let old = parse_mapping(&head[range])?.into_iter().find(|(name, _)| name == key);
    let old = old.map(|(_, node)| YamlNode {
        range: start + node.range.start..start + node.range.end,
        last_item: node.last_item.map(|at| start + at),
        ..node
    });
    let changes = [
        old.as_ref().and_then(|old| append_items(head, old, value)),
        old.as_ref().and_then(|old| replace_scalar(head, old, value)),
        Some(replace_lines(head, key, value)),
    ];
    let mut changes = changes.into_iter().flatten();
    changes.find(|changed| parse_fields(changed).as_ref() == Some(&expected))
}

/// Returns the lines of a key: `key: value`, or an item per line.
pub fn format_field(key: &str, value: &Value) -> String {
    match value {
        Value::Array(items) if !items.is_empty() => {
            let items = items.iter().map(|item| format!("  - {}\n", format_scalar(item)));
            format!("{key}:\n{}", items.collect::<String>())
        }
        value => format!("{key}: {}\n", format_scalar(value)),
    }
}

fn format_scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        // A JSON string is a YAML string, except that YAML wants more characters escaped.
        Value::String(_) => {
            let json = value.to_string();
            let escaped = json.chars().map(|character| match character {
                character if needs_escape(character) => format!("\\u{:04x}", u32::from(character)),
                character => character.to_string(),
            });
            escaped.collect()
        }
        value => value.to_string(),
    }
}

/// Returns whether every YAML reader takes a text for what it is without quotes. Readers of YAML 1.1 know more words for
/// truth, and more forms of numbers and dates, than those of YAML 1.2.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 16] = [
        "", "~", "null", "true", "false", "yes", "no", "y", "n", "on", "off", "nan", "inf", "<<", "=", "?",
    ];
    const NOT_FIRST: &str = ",:[]{}#&*!|>'\"%@`";
    let starts_structure = text.starts_with(|first| NOT_FIRST.contains(first))
        || ["- ", "? ", "--- ", "... "].iter().any(|start| text.starts_with(start));
    let has_structure = text.contains(": ") || text.contains(" #") || text.ends_with(':');
    let is_number = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first))
        && (text.starts_with("0x")
            || text
                .chars()
                .all(|c| c.is_ascii_digit() || "+-._:,eExobTtZz ".contains(c)));
    !starts_structure
        && !has_structure
        && !is_number
        && text.trim() == text
        && !text.contains(needs_escape)
        && !WORDS
            .iter()
            .any(|word| word.eq_ignore_ascii_case(text.trim_start_matches(['+', '-', '.'])))
}

/// Returns whether a character is not safe outside double quotes.
fn needs_escape(character: char) -> bool {
    let is_mark = matches!(
        character,
        '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    );
    character.is_control() || is_mark
}

/// Appends items to a list that has an item per line, if the new list starts with the old one.
fn append_items(head: &str, old: &YamlNode, value: &Value) -> Option<String> {
    let new = value.as_array()?.strip_prefix(old.value.as_array()?.as_slice())?;
    let line = head[..old.last_item?].rfind('\n')? + 1;
    let (indent, _) = head[line..].split_once('-')?;
    let end = old.range.end + head[old.range.end..].find('\n')? + 1;
    let items = new
        .iter()
        .map(|item| format!("{indent}- {}{}", format_scalar(item), line_ending(head)));
    Some([&head[..end], &items.collect::<String>(), &head[end..]].concat())
}

/// Replaces a scalar and leaves the rest of its line as it is.
fn replace_scalar(head: &str, old: &YamlNode, value: &Value) -> Option<String> {
    let is_scalar = |value: &Value| matches!(value, Value::String(_) | Value::Number(_));
    let is_inline = !old.range.is_empty() && !head[old.range.clone()].contains('\n');
    (is_scalar(&old.value) && is_scalar(value) && is_inline)
        .then(|| [&head[..old.range.start], &format_scalar(value), &head[old.range.end..]].concat())
}

/// Replaces the lines of a key, or adds the key at the end.
fn replace_lines(head: &str, key: &str, value: &Value) -> String {
    let new_lines = format_field(key, value).replace('\n', line_ending(head));
    let mut out = String::new();
    let mut lines = head.split_inclusive('\n').enumerate().peekable();
    let mut is_placed = false;
    while let Some((number, line)) = lines.next() {
        let is_key = line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
        if number > 0 && !is_placed && (is_key || is_fence(line)) {
            out.push_str(&new_lines);
            is_placed = true;
            if is_key {
                let belongs =
                    |line: &str| line.starts_with([' ', '\t']) || line.starts_with("- ") || line.trim() == "-";
                while lines.next_if(|(_, line)| belongs(line)).is_some() {}
                continue;
            }
        }
        out.push_str(line);
    }
    out
}

fn line_ending(head: &str) -> &'static str {
    if head.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns the bytes between the fences.
fn yaml_range(head: &str) -> Option<Range<usize>> {
    let start = head.find('\n')? + 1;
    let end = head.trim_end().rfind("---")?;
    Some(start..end.max(start))
}

/// A value and where it stands.
struct YamlNode {
    value: Value,
    range: Range<usize>,
    /// Where the last item starts, of a list with an item per line.
    last_item: Option<usize>,
}

impl YamlNode {
    fn new(value: Value, range: Range<usize>) -> YamlNode {
        YamlNode {
            value,
            range,
            last_item: None,
        }
    }
}

/// Returns keys and values of a mapping; those of an empty document are none.
fn parse_mapping(yaml: &str) -> Option<Vec<(String, YamlNode)>> {
    let mut reader = NodeReader::new(yaml);
    reader.expect(|event| matches!(event, Event::StreamStart))?;
    let mut fields = Vec::new();
    if !matches!(reader.next()?.0, Event::StreamEnd) {
        match reader.next()? {
            (Event::MappingStart(..), _) => reader.read_pairs(0, &mut fields)?,
            // Only comments.
            (Event::Scalar(text, ScalarStyle::Plain, ..), _) if text.is_empty() => {}
            _ => return None,
        }
        reader.expect(|event| matches!(event, Event::DocumentEnd))?;
        reader.expect(|event| matches!(event, Event::StreamEnd))?;
    }
    Some(fields)
}

/// Builds values from the events of the parser. Every method returns `None` if the YAML is wrong or too deep.
struct NodeReader<'y> {
    events: Parser<'y, StrInput<'y>>,
    /// Scalars that an alias may refer to.
    anchors: HashMap<usize, Value>,
}

impl<'y> NodeReader<'y> {
    fn new(yaml: &'y str) -> NodeReader<'y> {
        NodeReader {
            events: Parser::new_from_str_with_options(yaml, options! { emit_comments: false }),
            anchors: HashMap::new(),
        }
    }

    fn next(&mut self) -> Option<(Event<'y>, Range<usize>)> {
        let (event, span) = self.events.next()?.ok()?;
        Some((event, span.byte_range()?))
    }

    fn expect(&mut self, is_expected: impl Fn(&Event<'y>) -> bool) -> Option<()> {
        is_expected(&self.next()?.0).then_some(())
    }

    fn read_node(&mut self, event: Event<'y>, range: Range<usize>, depth: usize) -> Option<YamlNode> {
        if depth > MAX_DEPTH {
            return None;
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain && tag.is_none();
                let value = if is_plain {
                    resolve_plain(&text)
                } else {
                    text.into_owned().into()
                };
                if anchor > 0 {
                    self.anchors.insert(anchor, value.clone());
                }
                Some(YamlNode::new(value, range))
            }
            // An alias of anything but a scalar could make a small text a huge value.
            Event::Alias(anchor) => Some(YamlNode::new(self.anchors.get(&anchor)?.clone(), range)),
            Event::SequenceStart(style, ..) => self.read_items(style, range, depth),
            Event::MappingStart(..) => {
                let mut fields = Vec::new();
                self.read_pairs(depth, &mut fields)?;
                let fields = fields.into_iter().map(|(key, node)| (key, node.value));
                Some(YamlNode::new(Value::Object(fields.collect()), range))
            }
            _ => None,
        }
    }

    fn read_items(&mut self, style: StructureStyle, range: Range<usize>, depth: usize) -> Option<YamlNode> {
        let mut items = Vec::new();
        let mut list = YamlNode::new(Value::Null, range);
        loop {
            let (event, range) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                list.value = Value::Array(items);
                return Some(list);
            }
            let item = self.read_node(event, range, depth + 1)?;
            if style == StructureStyle::Block {
                list.last_item = Some(item.range.start);
                list.range.end = item.range.end;
            }
            items.push(item.value);
        }
    }

    /// Reads the pairs of a mapping up to its end. A key that comes twice is wrong: readers do not agree on its value.
    fn read_pairs(&mut self, depth: usize, fields: &mut Vec<(String, YamlNode)>) -> Option<()> {
        loop {
            let (event, range) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Some(());
            }
            let key = match self.read_node(event, range, depth + 1)?.value {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                _ => return None,
            };
            let (event, range) = self.next()?;
            let node = self.read_node(event, range, depth + 1)?;
            if fields.iter().any(|(known, _)| *known == key) {
                return None;
            }
            fields.push((key, node));
        }
    }
}

/// Returns the value of a scalar without quotes. Only numbers that are written as usual are numbers, so that everything else
/// is shown as it was written.
fn resolve_plain(text: &str) -> Value {
    match text.parse::<u64>() {
        _ if matches!(text, "" | "~" | "null" | "Null" | "NULL") => Value::Null,
        Ok(number) if number.to_string() == text => number.into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn set(head: &str, key: &str, value: Value) -> Option<String> {
        set_field(head, key, &value)
    }

    #[test]
    fn every_style_of_a_value_is_read() {
        let head = "---\n# mine\nplain: one two  # why\nsingle: 'it''s: # one'\ndouble: \"a\\tb\\u00e9\\x21\\\n  c\"\n\
                    folded: >\n  one\n  two\n\n  three\nliteral: |-\n  one\n   two\nbelow:\n  one\n  two\n\
                    items:\n- a\n# between\n- 'b: c'\nflow: [a, \"b, c\",\n  d]\nempty:\nnone: ~\n\
                    confirmed: 3\nversion: 1.50\n\"quoted\": yes\nnested:\n  a: {b: [c]}\nanchor: &x one\nalias: *x\n\
                    tagged: !!str 7\n---\n";
        let expected = json!({
            "plain": "one two", "single": "it's: # one", "double": "a\tb\u{e9}!c", "folded": "one two\nthree\n",
            "literal": "one\n two", "below": "one two", "items": ["a", "b: c"], "flow": ["a", "b, c", "d"], "empty": null,
            "none": null, "confirmed": 3, "version": "1.50", "quoted": "yes", "nested": {"a": {"b": ["c"]}},
            "anchor": "one", "alias": "one", "tagged": "7",
        });
        assert_eq!(parse_fields(head).map(Value::Object), Some(expected));
    }

    #[test]
    fn an_empty_mapping_has_no_fields_and_other_yaml_is_no_mapping() {
        for empty in ["---\n---\n", "---\n# nothing\n\n---\n", "---\r\n---"] {
            assert_eq!(parse_fields(empty), Some(Map::new()), "{empty:?}");
        }
        let deep = format!("a: {}{}", "[".repeat(5_000), "]".repeat(5_000));
        for wrong in [
            "a: [",
            "just text",
            "- a",
            "a: b: c",
            "a: 1\na: 2",
            "a: *b",
            "a: \"b",
            "{a: 1}}",
            &deep,
        ] {
            assert_eq!(parse_fields(&format!("---\n{wrong}\n---\n")), None, "{wrong}");
        }
        assert_eq!(parse_fields("no fence"), None);
    }

    #[test]
    fn a_change_leaves_comments_and_styles_alone() {
        let head = "---\nname: \"a # b\"   # mine\ncount: 1 # seen\nlist:\n    # first\n    - 'one'  # kept\n    # last\nend: x\n---\n";
        let changed = set(head, "name", json!("c: d")).unwrap();
        assert_eq!(changed, head.replace("\"a # b\"", "\"c: d\""));
        let changed = set(head, "count", json!(2)).unwrap();
        assert_eq!(changed, head.replace("count: 1", "count: 2"));
        let changed = set(head, "list", json!(["one", "two"])).unwrap();
        assert_eq!(changed, head.replace("  # kept\n", "  # kept\n    - two\n"));
        let changed = set(head, "new", json!(["one"])).unwrap();
        assert_eq!(changed, head.replace("end: x\n", "end: x\nnew:\n  - one\n"));
    }

    #[test]
    fn a_value_of_several_lines_is_replaced_as_a_whole() {
        let rest = "type: user\n---\n";
        for old in [
            "text: >-\n  one\n  two\n",
            "text:\n- one\n- two\n",
            "text:\n",
            "text: [one,\n  two]\n",
            "text: \"one\n  two\"\n",
        ] {
            let changed = set(&format!("---\n{old}{rest}"), "text", json!("new"));
            assert_eq!(changed, Some(format!("---\ntext: new\n{rest}")), "{old}");
        }
        let list = set("---\nlist: [a]\n---\n", "list", json!(["a", "b"]));
        assert_eq!(list.as_deref(), Some("---\nlist:\n  - a\n  - b\n---\n"));
        assert_eq!(
            set("---\n'text': one\n---\n", "text", json!("new")).as_deref(),
            Some("---\n'text': new\n---\n")
        );
    }

    #[test]
    fn a_change_that_would_lose_something_is_refused() {
        let block = "---\ntext: |\n  one\n\n  two\n---\n";
        assert_eq!(
            set(block, "text", json!("new")),
            None,
            "the second part would stay behind"
        );
        assert_eq!(set("---\nname: [\n---\n", "text", json!("new")), None);
    }

    #[test]
    fn windows_line_endings_stay() {
        let head = "---\r\nlist:\r\n- a\r\nname: b\r\n---\r\n";
        let changed = set(head, "list", json!(["a", "c"])).unwrap();
        assert_eq!(changed, head.replace("- a\r\n", "- a\r\n- c\r\n"));
        let changed = set(head, "more", json!(["a"])).unwrap();
        assert_eq!(changed, head.replace("name: b\r\n", "name: b\r\nmore:\r\n  - a\r\n"));
    }

    #[test]
    fn frontmatter_is_skimmed_without_its_end() {
        let items = "- x\n".repeat(50);
        let found = skim_frontmatter(&format!(
            "---\nname: A\ndescription: \"b: c\"\ntype: x: y\nsources:\n{items}---\nbody"
        ));
        assert_eq!(found["description"], "b: c");
        assert_eq!(found["name"], "A");
        assert_eq!(found["type"], "x: y", "as it stands");
    }

    /// Texts that are easily taken for something else.
    fn text() -> impl Strategy<Value = String> {
        let odd = r##"[-?:,\[\]{}#&*!|>'"%@`~=<. \t\r\n\x00-\x7f\u{85}\u{a0}\u{2028}\u{feff}\u{ffff}a-c0-9]{0,8}"##;
        let words = [
            "null",
            "True",
            "NO",
            "on",
            "0x1f",
            "1e3",
            "12:30",
            "2026-01-02",
            ".inf",
            "+1",
            "---",
            "...",
            "- a",
            "a: b",
            "a #b",
        ];
        prop_oneof![
            any::<String>(),
            odd,
            proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
        ]
    }

    /// Compares values, except that the other parser takes the truth words of YAML 1.1 for truth values. Ours keeps the text.
    fn agrees(ours: &Value, theirs: &Value) -> bool {
        match (ours, theirs) {
            (Value::String(word), Value::Bool(truth)) => {
                let words = if *truth {
                    ["y", "yes", "on", "true"]
                } else {
                    ["n", "no", "off", "false"]
                };
                words.contains(&word.to_lowercase().as_str())
            }
            (Value::Array(ours), Value::Array(theirs)) => {
                ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| agrees(ours, theirs))
            }
            (Value::Object(ours), Value::Object(theirs)) => {
                ours.len() == theirs.len()
                    && ours
                        .iter()
                        .all(|(key, ours)| theirs.get(key).is_some_and(|theirs| agrees(ours, theirs)))
            }
            (ours, theirs) => ours == theirs,
        }
    }

    #[test]
    fn truth_words_stay_text() {
        assert_eq!(
            parse_fields("---\na:  # c\n  n\nb: [yes]\n---\n").map(Value::Object),
            Some(json!({"a": "n", "b": ["yes"]}))
        );
    }

    proptest! {
        #[test]
        fn another_parser_reads_the_same_texts(text in text(), items in proptest::collection::vec(text(), 0..4), count in any::<u64>()) {
            let fields = json!({"name": text, "sources": items, "confirmed": count});
            let lines = fields.as_object().unwrap().iter().map(|(key, value)| format_field(key, value)).collect::<String>();
            let yaml = format!("---\n{lines}---\n");
            prop_assert_eq!(serde_saphyr::from_str::<Value>(&lines).ok(), Some(fields.clone()), "{}", yaml);
            prop_assert_eq!(parse_fields(&yaml).map(Value::Object), Some(fields), "{}", yaml);
        }

        #[test]
        fn words_are_written_without_quotes(words in "[A-Za-z][a-z]{3,9}( [a-z(]{2,9}[a-z:/)]?[0-9a-z]){0,4}") {
            let pair = BTreeMap::from([("name", &words)]);
            prop_assert_eq!(format_field("name", &words.clone().into()), serde_saphyr::to_string(&pair).unwrap());
        }

        #[test]
        fn any_value_is_read_as_another_parser_reads_it(
            keys in proptest::collection::vec((
                "[a-d]",
                "( |  # c|)(|\n  |\n# c\n  )(|'|\"|\\[|>\n  |- |\\|-\n  )[a-z: #,'\"\\\\-]{0,8}(|\n  [a-z ]{0,4})(|'|\"|\\])(| # c)",
            ), 1..4),
        ) {
            let yaml = keys.iter().map(|(key, value)| format!("{key}:{value}\n")).collect::<String>();
            let ours = parse_fields(&format!("---\n{yaml}---\n")).map(Value::Object);
            let theirs = serde_saphyr::from_str::<Value>(&yaml).ok().filter(Value::is_object);
            let agrees = match (&ours, &theirs) {
                (Some(ours), Some(theirs)) => agrees(ours, theirs),
                (ours, theirs) => ours == theirs,
            };
            prop_assert!(agrees, "{yaml}\nours: {ours:?}\ntheirs: {theirs:?}");
        }

        #[test]
        fn a_change_is_read_as_that_change(text in text(), old in "( |  # c|)(|'|\"|\\[|>\n  |\n- )[a-z ]{0,8}(|'|\"|\\])(| # c)") {
            let head = format!("---\na: 1\nname:{old}\nb: [x]\n---\n");
            if let Some(changed) = set(&head, "name", text.clone().into()) {
                let mut expected = parse_fields(&head).unwrap();
                expected.insert("name".into(), text.into());
                prop_assert_eq!(parse_fields(&changed), Some(expected));
                prop_assert!(changed.contains("a: 1\n") && changed.contains("b: [x]\n"));
            }
        }
    }
}
