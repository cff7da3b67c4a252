//! What a template does wrong: Python's exceptions, in one line each.

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Syntax,
    /// The template raised, or misused a value.
    Raised,
    /// It took more steps than it may.
    Steps,
    /// It wrote more than it may.
    Size,
}

#[derive(Debug)]
struct Told {
    kind: Kind,
    /// 0: not known yet.
    line: u32,
    message: String,
}

/// Boxed: a Result of a value is passed through every node of a template.
#[derive(Debug)]
pub struct Error(Box<Told>);

pub type Outcome<T> = Result<T, Error>;

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error(Box::new(Told { kind, line: 0, message: message.into() }))
    }

    /// The same error, at `line` unless it is known where.
    pub fn at(mut self, line: u32) -> Error {
        if self.0.line == 0 {
            self.0.line = line;
        }
        self
    }

    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    pub fn line(&self) -> Option<u32> {
        (self.0.line > 0).then_some(self.0.line)
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }
}

/// An exception of Python's or of the template's.
pub fn raised(message: impl Into<String>) -> Error {
    Error::new(Kind::Raised, message)
}

/// Err with an exception.
pub fn raise<T>(message: impl Into<String>) -> Outcome<T> {
    Err(raised(message))
}
