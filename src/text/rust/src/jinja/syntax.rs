//! A parsed template. Nothing of a rendering is in it: threads share it.

use std::sync::Arc;

pub type Name = Arc<str>;

pub struct Expr {
    pub line: u32,
    pub kind: ExprKind,
}

pub enum Constant {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(Box<str>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    NotIn,
}

#[derive(Default)]
pub struct CallArguments {
    pub positional: Vec<Expr>,
    pub named: Vec<(Name, Expr)>,
    /// *args
    pub more: Option<Box<Expr>>,
    /// **kwargs
    pub more_named: Option<Box<Expr>>,
}

/// A filter or a test by name, and what it is given.
pub struct Applied {
    pub line: u32,
    pub name: Name,
    pub arguments: CallArguments,
}

pub enum ExprKind {
    Constant(Constant),
    Name(Name),
    Tuple(Vec<Expr>),
    List(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    Concat(Vec<Expr>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    /// Test, then, else.
    If(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    Attribute(Box<Expr>, Name),
    Item(Box<Expr>, Box<Expr>),
    /// A colon's sides inside [].
    Slice(Box<[Option<Expr>; 3]>),
    Call(Box<Expr>, Box<CallArguments>),
    Filter(Box<Expr>, Box<Applied>),
    Test(Box<Expr>, Box<Applied>),
}

pub enum Target {
    Name(Name),
    /// `namespace.name`
    Member(Name, Name),
    Tuple(Vec<Target>),
}

pub struct ForNode {
    pub target: Target,
    pub over: Expr,
    pub filter: Option<Expr>,
    pub is_recursive: bool,
    pub body: Vec<Statement>,
    pub otherwise: Vec<Statement>,
}

/// A macro; a call block's body is one without a name.
pub struct MacroNode {
    pub name: Option<Name>,
    /// Each with its default.
    pub parameters: Vec<(Name, Option<Expr>)>,
    pub body: Vec<Statement>,
    /// Whether the body reads these, and so takes them.
    pub reads_caller: bool,
    pub reads_varargs: bool,
    pub reads_kwargs: bool,
}

pub struct Statement {
    pub line: u32,
    pub kind: StatementKind,
}

pub enum StatementKind {
    Data(Box<str>),
    Print(Expr),
    /// The first whose test holds; an `else` has none.
    If(Vec<(Option<Expr>, Vec<Statement>)>),
    For(Arc<ForNode>),
    Set(Target, Expr),
    SetBlock(Target, Vec<Applied>, Vec<Statement>),
    With(Vec<(Target, Expr)>, Vec<Statement>),
    Macro(Arc<MacroNode>),
    Call(Arc<MacroNode>, Expr),
    FilterBlock(Vec<Applied>, Vec<Statement>),
    /// `{% generation %}`: what a trainer counts.
    Scope(Vec<Statement>),
    /// Whether it sees the variables around it.
    Block(bool, Vec<Statement>),
    Break,
    Continue,
    /// What only fails where it is reached.
    Refused(Box<str>),
}
