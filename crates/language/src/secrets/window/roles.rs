//! What a word says about the words around it: it links a name to a value, hands one over, begins another clause.

use super::super::pieces::is_unspaced;
use super::words::{BACK_LINKS, CLAUSES, CONTINUATIONS, FILLERS, GIVING, LINKS, SETTERS};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Ends of a run of Chinese by which people hand over a value.
const UNSPACED_GIVING: &[&str] = &[
    "用", "输", "輸", "输入", "輸入", "填", "敲", "试", "試", "试试", "試試", "打", "给", "給", "给你", "給你", "写",
    "寫", "贴", "貼", "填入", "发", "發", "使用", "先用", "换", "換", "选", "選", "喺", "入",
];

/// Links at the end of a run of Chinese.
const UNSPACED_LINK_ENDS: &[&str] = &[
    "是", "为", "為", "叫", "成", "成了", "到", "作", "即", "就", "係", "就是", "等于", "等於", "做", "的", "设", "設",
];

/// Remarks on how a value is spelled.
const REMARKS: &[&str] = &[
    "capital",
    "capitals",
    "lowercase",
    "uppercase",
    "lower",
    "upper",
    "caps",
    "spaces",
    "space",
    "hyphen",
    "hyphens",
    "dash",
    "dot",
    "underscore",
    "exclamation",
    "zero",
    "letter",
    "digits",
    "spelled",
    "temp",
    "temporary",
    "rotate",
    "expires",
    "hurry",
    "expired",
];

/// The same in Chinese, anywhere in a run.
const UNSPACED_REMARKS: &[&str] = &[
    "大写",
    "大寫",
    "小写",
    "小寫",
    "空格",
    "空白",
    "感叹号",
    "驚嘆號",
    "下划线",
    "底線",
    "数字",
    "數字",
    "拼音",
    "字母",
    "临时",
    "臨時",
    "别外传",
    "過期",
    "过期",
];

/// What a word is for the words around it.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::secrets) struct WordRole {
    pub is_link: bool,
    pub is_giving: bool,
    pub is_setter: bool,
    pub is_filler: bool,
    pub is_remark: bool,
    pub is_back_link: bool,
    pub is_clause: bool,
    pub is_continuation: bool,
}

/// Gives a word a role.
type SetRole = fn(&mut WordRole);

/// The roles of words in small letters.
static ROLES: LazyLock<HashMap<&'static str, WordRole>> = LazyLock::new(|| {
    let mut roles = HashMap::<_, WordRole>::new();
    let lists: [(&[&str], SetRole); 8] = [
        (LINKS, |role| role.is_link = true),
        (GIVING, |role| role.is_giving = true),
        (SETTERS, |role| role.is_setter = true),
        (FILLERS, |role| role.is_filler = true),
        (REMARKS, |role| role.is_remark = true),
        (BACK_LINKS, |role| role.is_back_link = true),
        (CLAUSES, |role| role.is_clause = true),
        (CONTINUATIONS, |role| role.is_continuation = true),
    ];
    for (words, set) in lists {
        for word in words {
            set(roles.entry(*word).or_default());
        }
    }
    roles
});

/// The longest word that has a role.
const LONGEST: usize = 16;

impl WordRole {
    /// Returns the role of a word of any case, or of a run of Chinese.
    pub fn of(word: &str) -> WordRole {
        if word.starts_with(is_unspaced) {
            let ends_in = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
            return WordRole {
                is_link: ends_in(UNSPACED_LINK_ENDS),
                is_giving: ends_in(UNSPACED_GIVING),
                is_remark: UNSPACED_REMARKS.iter().any(|remark| word.contains(remark)),
                ..WordRole::default()
            };
        }
        let known = match word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            _ if word.len() > LONGEST => None,
            true => ROLES.get(word.to_ascii_lowercase().as_str()),
            false => ROLES.get(word),
        };
        known.copied().unwrap_or_default()
    }
}
