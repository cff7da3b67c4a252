//! Python's values, as far as templates see them. None can be changed but a
//! namespace and what counts (loop, cycler, joiner): the sandbox is immutable.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::dict::Dict;
use super::functions::Function;
use super::items::Items;
use super::loops::Loop;
use super::scope::Scope;
use super::str_kinds::chars_of;
use super::syntax::MacroNode;
use std::sync::Arc;

/// A str, or markupsafe's Markup, which `safe` makes of one.
#[derive(Clone)]
pub struct Text {
    text: Rc<str>,
    pub safe: bool,
    /// Then a character is a byte.
    ascii: bool,
}

impl Text {
    pub fn new(text: &str, safe: bool) -> Text {
        Text { text: text.into(), safe, ascii: text.is_ascii() }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// In characters.
    pub fn len(&self) -> usize {
        if self.ascii {
            self.text.len()
        } else {
            chars_of(&self.text)
        }
    }

    /// Where character `index` begins; the text's end where there is none.
    pub fn byte_at(&self, index: usize) -> usize {
        if self.ascii {
            return index.min(self.text.len());
        }
        let mut indices = self.text.char_indices();
        indices.nth(index).map_or(self.text.len(), |(at, _)| at)
    }

    /// How many characters stand before byte `at`.
    pub fn chars_before(&self, at: usize) -> usize {
        if self.ascii {
            at
        } else {
            chars_of(&self.text[..at])
        }
    }
}

/// What stands where nothing is: why, which is told where it is used.
pub struct Undefined {
    pub why: Box<str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum View {
    Keys,
    Values,
    Pairs,
}

impl View {
    pub fn name(self) -> &'static str {
        match self {
            View::Keys => "dict_keys",
            View::Values => "dict_values",
            View::Pairs => "dict_items",
        }
    }
}

/// A macro, or the body of a call block, and where it was defined.
pub struct Macro {
    pub node: Arc<MacroNode>,
    pub scope: Rc<Scope>,
}

pub struct Cycler {
    pub items: Vec<Value>,
    pub at: Cell<usize>,
}

pub struct Joiner {
    pub separator: Value,
    pub used: Cell<bool>,
}

#[derive(Clone, Copy)]
pub struct Range {
    pub start: i128,
    pub stop: i128,
    pub step: i128,
}

impl Range {
    pub fn len(&self) -> usize {
        let span = if self.step > 0 {
            self.stop - self.start
        } else {
            self.start - self.stop
        };
        let step = self.step.abs();
        usize::try_from((span + step - 1).max(0) / step).unwrap_or(usize::MAX)
    }

    pub fn at(&self, index: usize) -> Value {
        Value::Int(self.start + self.step * index as i128)
    }
}

#[derive(Clone)]
pub enum Value {
    Undefined(Rc<Undefined>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Text),
    List(Rc<Vec<Value>>),
    Tuple(Rc<Vec<Value>>),
    /// What groupby makes: a tuple with names.
    Group(Rc<Vec<Value>>),
    Dict(Rc<Dict>),
    View(Rc<Dict>, View),
    Range(Range),
    /// A generator: its items come once, and it has no length.
    Items(Rc<RefCell<Items>>),
    Namespace(Rc<RefCell<Dict>>),
    Macro(Rc<Macro>),
    Loop(Rc<Loop>),
    Cycler(Rc<Cycler>),
    Joiner(Rc<Joiner>),
    Method(Rc<(Value, &'static str)>),
    Function(Function),
}

impl Value {
    pub fn text(text: impl AsRef<str>) -> Value {
        Value::Str(Text::new(text.as_ref(), false))
    }

    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Rc::new(items))
    }

    pub fn tuple(items: Vec<Value>) -> Value {
        Value::Tuple(Rc::new(items))
    }

    pub fn items(items: Items) -> Value {
        Value::Items(Rc::new(RefCell::new(items)))
    }

    pub fn undefined(why: impl Into<Box<str>>) -> Value {
        Value::Undefined(Rc::new(Undefined { why: why.into() }))
    }

    pub fn count(number: usize) -> Value {
        Value::Int(number as i128)
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// An int; True and False are 1 and 0.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Bool(flag) => Some(i128::from(*flag)),
            _ => None,
        }
    }

    /// The items of a list or a tuple.
    pub fn as_sequence(&self) -> Option<&Rc<Vec<Value>>> {
        match self {
            Value::List(items) | Value::Tuple(items) | Value::Group(items) => {
                Some(items)
            }
            _ => None,
        }
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined(_))
    }

    pub fn is_callable(&self) -> bool {
        matches!(
            self,
            Value::Undefined(_)
                | Value::Macro(_)
                | Value::Loop(_)
                | Value::Joiner(_)
                | Value::Method(_)
                | Value::Function(_)
        )
    }

    /// Python's len(), where there is one.
    pub fn len(&self) -> Option<usize> {
        Some(match self {
            Value::Undefined(_) => 0,
            Value::Str(text) => text.len(),
            Value::List(items) | Value::Tuple(items) | Value::Group(items) => {
                items.len()
            }
            Value::Dict(dict) | Value::View(dict, _) => dict.len(),
            Value::Range(range) => range.len(),
            _ => return None,
        })
    }

    pub fn is_true(&self) -> bool {
        match self {
            Value::None => false,
            Value::Bool(flag) => *flag,
            Value::Int(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Str(text) => !text.as_str().is_empty(),
            other => other.len() != Some(0),
        }
    }

    /// type(value).__name__
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Undefined(_) => "Undefined",
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Str(text) if text.safe => "Markup",
            Value::Str(_) => "str",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Group(_) => "_GroupTuple",
            Value::Dict(_) => "dict",
            Value::View(_, view) => view.name(),
            Value::Range(_) => "range",
            Value::Items(_) => "generator",
            Value::Namespace(_) => "Namespace",
            Value::Macro(_) => "Macro",
            Value::Loop(_) => "LoopContext",
            Value::Cycler(_) => "Cycler",
            Value::Joiner(_) => "Joiner",
            Value::Method(_) => "builtin_function_or_method",
            Value::Function(_) => "function",
        }
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Bool(flag)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::text(text)
    }
}
