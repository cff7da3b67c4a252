//! The statements of a template.

use std::sync::Arc;

use super::error::{Error, Kind, Outcome};
use super::lexer::{normalized, tokens, Tok, Token};
use super::syntax::{
    Applied, Expr, ExprKind, ForNode, MacroNode, Name, Statement,
    StatementKind, Target,
};

/// How deep expressions and blocks may nest, and how long a chain of operators
/// may be: a rendering recurses as deep.
const MAX_DEPTH: usize = 1000;

pub struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    num_loops: usize,
    /// Every name as it is read (true) or set, in order.
    pub seen: Vec<(Name, bool)>,
}

pub fn parse(source: &str) -> Outcome<Vec<Statement>> {
    let tokens = tokens(&normalized(source))?;
    let mut parser =
        Parser { tokens, at: 0, depth: 0, num_loops: 0, seen: Vec::new() };
    let body = parser.body(&[])?;
    match parser.tok() {
        Tok::End => Ok(body),
        _ => parser.fail("unexpected end of a block"),
    }
}

impl Parser {
    pub fn tok(&self) -> &Tok {
        &self.tokens[self.at].tok
    }

    pub fn look(&self) -> &Tok {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].tok
    }

    pub fn line(&self) -> u32 {
        self.tokens[self.at].line
    }

    /// Whether the token before was a call's end.
    pub fn after_call(&self) -> bool {
        self.at > 0 && self.tokens[self.at - 1].tok == Tok::Op(")")
    }

    pub fn next(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    pub fn fail<T>(&self, message: impl Into<String>) -> Outcome<T> {
        Err(Error::new(Kind::Syntax, message).at(self.line()))
    }

    pub fn is_op(&self, op: &str) -> bool {
        matches!(self.tok(), Tok::Op(found) if *found == op)
    }

    pub fn skip_op(&mut self, op: &str) -> bool {
        let found = self.is_op(op);
        if found {
            self.next();
        }
        found
    }

    pub fn expect_op(&mut self, op: &str) -> Outcome<()> {
        if self.skip_op(op) {
            return Ok(());
        }
        self.fail(format!("expected token '{op}', got {}", self.shown()))
    }

    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.tok(), Tok::Name(name) if **name == *word)
    }

    pub fn skip_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Outcome<()> {
        if self.skip_word(word) {
            return Ok(());
        }
        self.fail(format!("expected token '{word}', got {}", self.shown()))
    }

    pub fn expect_name(&mut self) -> Outcome<Name> {
        if let Tok::Name(name) = self.tok() {
            let name = name.clone();
            self.next();
            return Ok(name);
        }
        self.fail(format!("expected a name, got {}", self.shown()))
    }

    pub fn shown(&self) -> String {
        match self.tok() {
            Tok::Data(_) => "template data".to_owned(),
            Tok::PrintBegin => "begin of print statement".to_owned(),
            Tok::PrintEnd => "end of print statement".to_owned(),
            Tok::BlockBegin => "begin of statement block".to_owned(),
            Tok::BlockEnd => "end of statement block".to_owned(),
            Tok::Name(name) => format!("'{name}'"),
            Tok::Str(text) => format!("{text:?}"),
            Tok::Int(number) => number.to_string(),
            Tok::Float(number) => number.to_string(),
            Tok::Op(op) => format!("'{op}'"),
            Tok::End => "end of template".to_owned(),
        }
    }

    /// Runs `parse` one level deeper.
    pub fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<T> {
        let depth = self.depth;
        self.chain()?;
        let parsed = parse(self);
        self.depth = depth;
        parsed
    }

    /// One link more; who calls it restores the depth by `deeper`.
    pub fn chain(&mut self) -> Outcome<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(format!("nesting must be at most {MAX_DEPTH}"));
        }
        Ok(())
    }

    /// Statements up to a tag that begins with one of `ends`, whose name is
    /// then the current token; up to the template's end where there are none.
    fn body(&mut self, ends: &[&str]) -> Outcome<Vec<Statement>> {
        self.deeper(|parser| parser.statements(ends))
    }

    fn statements(&mut self, ends: &[&str]) -> Outcome<Vec<Statement>> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            match self.tok() {
                Tok::Data(text) => {
                    let kind = StatementKind::Data(text.clone());
                    self.next();
                    body.push(Statement { line, kind });
                }
                Tok::PrintBegin => {
                    self.next();
                    let value = self.tuple(true, false)?;
                    if *self.tok() != Tok::PrintEnd {
                        return self.fail(format!(
                            "expected token 'end of print statement', got {}",
                            self.shown()
                        ));
                    }
                    self.next();
                    let kind = StatementKind::Print(value);
                    body.push(Statement { line, kind });
                }
                Tok::BlockBegin => {
                    self.next();
                    if ends.iter().any(|end| self.is_word(end)) {
                        return Ok(body);
                    }
                    let line = self.line();
                    self.statement(&mut body, line)?;
                    self.block_end()?;
                }
                Tok::End if ends.is_empty() => return Ok(body),
                Tok::End => {
                    return self.fail(format!(
                        "Unexpected end of template. Jinja was looking for the \
                         following tags: {}.",
                        ends.join(" or ")
                    ))
                }
                _ => return self.fail(format!("unexpected {}", self.shown())),
            }
        }
    }

    fn block_end(&mut self) -> Outcome<()> {
        if *self.tok() == Tok::BlockEnd {
            self.next();
            return Ok(());
        }
        self.fail(format!(
            "expected token 'end of statement block', got {}",
            self.shown()
        ))
    }

    /// A tag's end and what follows up to one of `ends`.
    fn inner(&mut self, ends: &[&str]) -> Outcome<Vec<Statement>> {
        self.skip_op(":");
        self.block_end()?;
        self.body(ends)
    }

    /// The same, and the end's name is passed.
    fn whole(&mut self, end: &str) -> Outcome<Vec<Statement>> {
        let body = self.inner(&[end])?;
        self.next();
        Ok(body)
    }

    fn statement(
        &mut self,
        body: &mut Vec<Statement>,
        line: u32,
    ) -> Outcome<()> {
        let word = match self.tok() {
            Tok::Name(name) => name.clone(),
            _ => return self.fail("tag name expected"),
        };
        self.next();
        let kind = match &*word {
            "if" => self.if_statement()?,
            "for" => self.for_statement()?,
            "set" => self.set_statement()?,
            "print" => return self.print_statement(body, line),
            "with" => self.with_statement()?,
            "macro" => self.macro_statement()?,
            "call" => self.call_statement()?,
            "filter" => self.filter_statement()?,
            "block" => self.block_statement()?,
            "generation" => {
                StatementKind::Scope(self.own_body("endgeneration")?)
            }
            "autoescape" => self.autoescape_statement()?,
            "break" | "continue" if self.num_loops == 0 => {
                return self.fail(format!("'{word}' outside loop"))
            }
            "break" => StatementKind::Break,
            "continue" => StatementKind::Continue,
            "include" | "import" | "from" | "extends" => {
                while !matches!(self.tok(), Tok::BlockEnd | Tok::End) {
                    self.next();
                }
                StatementKind::Refused(
                    format!("no other templates to {word} are there").into(),
                )
            }
            _ => {
                return Err(Error::new(
                    Kind::Syntax,
                    format!("Encountered unknown tag '{word}'."),
                )
                .at(line))
            }
        };
        body.push(Statement { line, kind });
        Ok(())
    }

    /// A body that loops around it cannot leave.
    fn own_body(&mut self, end: &str) -> Outcome<Vec<Statement>> {
        let num_loops = std::mem::take(&mut self.num_loops);
        let body = self.whole(end);
        self.num_loops = num_loops;
        body
    }

    fn if_statement(&mut self) -> Outcome<StatementKind> {
        let mut branches = Vec::new();
        loop {
            let test = self.tuple(false, false)?;
            let body = self.inner(&["elif", "else", "endif"])?;
            branches.push((Some(test), body));
            if self.skip_word("elif") {
                continue;
            }
            if self.skip_word("else") {
                branches.push((None, self.whole("endif")?));
            } else {
                self.next();
            }
            return Ok(StatementKind::If(branches));
        }
    }

    fn for_statement(&mut self) -> Outcome<StatementKind> {
        let target = self.target(false)?;
        self.expect_word("in")?;
        let over = self.tuple(false, true)?;
        let filter = match self.skip_word("if") {
            true => Some(self.expression()?),
            false => None,
        };
        let is_recursive = self.skip_word("recursive");
        self.num_loops += 1;
        let body = self.inner(&["endfor", "else"]);
        self.num_loops -= 1;
        let body = body?;
        let otherwise = match self.skip_word("else") {
            true => self.whole("endfor")?,
            false => {
                self.next();
                Vec::new()
            }
        };
        Ok(StatementKind::For(Arc::new(ForNode {
            target,
            over,
            filter,
            is_recursive,
            body,
            otherwise,
        })))
    }

    fn set_statement(&mut self) -> Outcome<StatementKind> {
        let target = self.target(true)?;
        if self.skip_op("=") {
            return Ok(StatementKind::Set(target, self.tuple(true, false)?));
        }
        let filters = self.filters()?;
        let body = self.whole("endset")?;
        Ok(StatementKind::SetBlock(target, filters, body))
    }

    fn filters(&mut self) -> Outcome<Vec<Applied>> {
        let mut filters = Vec::new();
        while self.skip_op("|") {
            filters.push(self.applied()?);
        }
        Ok(filters)
    }

    fn print_statement(
        &mut self,
        body: &mut Vec<Statement>,
        line: u32,
    ) -> Outcome<()> {
        let mut any = false;
        while *self.tok() != Tok::BlockEnd {
            if any {
                self.expect_op(",")?;
            }
            any = true;
            let kind = StatementKind::Print(self.expression()?);
            body.push(Statement { line, kind });
        }
        Ok(())
    }

    fn with_statement(&mut self) -> Outcome<StatementKind> {
        let mut values = Vec::new();
        while *self.tok() != Tok::BlockEnd {
            if !values.is_empty() {
                self.expect_op(",")?;
            }
            let target = self.target(false)?;
            self.expect_op("=")?;
            values.push((target, self.expression()?));
        }
        Ok(StatementKind::With(values, self.whole("endwith")?))
    }

    fn parameters(&mut self) -> Outcome<Vec<(Name, Option<Expr>)>> {
        self.expect_op("(")?;
        let mut parameters: Vec<(Name, Option<Expr>)> = Vec::new();
        while !self.is_op(")") {
            if !parameters.is_empty() {
                self.expect_op(",")?;
            }
            let name = self.expect_name()?;
            let default = match self.skip_op("=") {
                true => Some(self.expression()?),
                false if matches!(parameters.last(), Some((_, Some(_)))) => {
                    return self
                        .fail("non-default argument follows default argument")
                }
                false => None,
            };
            parameters.push((name, default));
        }
        self.expect_op(")")?;
        Ok(parameters)
    }

    fn macro_node(
        &mut self,
        name: Option<Name>,
        parameters: Vec<(Name, Option<Expr>)>,
        end: &str,
    ) -> Outcome<Arc<MacroNode>> {
        let from = self.seen.len();
        let body = self.own_body(end)?;
        let reads = |word: &str| {
            let mut seen = self.seen[from..].iter();
            seen.find(|(name, _)| **name == *word)
                .is_some_and(|(_, is_read)| *is_read)
        };
        let is_parameter =
            |word: &str| parameters.iter().any(|(name, _)| **name == *word);
        let (reads_caller, reads_varargs, reads_kwargs) = (
            reads("caller"),
            reads("varargs") && !is_parameter("varargs"),
            reads("kwargs") && !is_parameter("kwargs"),
        );
        Ok(Arc::new(MacroNode {
            name,
            parameters,
            body,
            reads_caller,
            reads_varargs,
            reads_kwargs,
        }))
    }

    fn macro_statement(&mut self) -> Outcome<StatementKind> {
        let name = self.expect_name()?;
        let parameters = self.parameters()?;
        let node = self.macro_node(Some(name), parameters, "endmacro")?;
        Ok(StatementKind::Macro(node))
    }

    fn call_statement(&mut self) -> Outcome<StatementKind> {
        let parameters = match self.is_op("(") {
            true => self.parameters()?,
            false => Vec::new(),
        };
        let call = self.expression()?;
        if !matches!(call.kind, ExprKind::Call(..)) {
            return self.fail("expected call");
        }
        let node = self.macro_node(None, parameters, "endcall")?;
        Ok(StatementKind::Call(node, call))
    }

    fn filter_statement(&mut self) -> Outcome<StatementKind> {
        let mut filters = vec![self.applied()?];
        filters.extend(self.filters()?);
        Ok(StatementKind::FilterBlock(filters, self.own_body("endfilter")?))
    }

    fn block_statement(&mut self) -> Outcome<StatementKind> {
        let name = self.expect_name()?;
        let is_scoped = self.skip_word("scoped");
        if self.skip_word("required") {
            return self.fail("a required block is never there");
        }
        let body = self.own_body("endblock")?;
        self.skip_word(&name);
        Ok(StatementKind::Block(is_scoped, body))
    }

    fn autoescape_statement(&mut self) -> Outcome<StatementKind> {
        let is_off = self.is_word("false") || self.is_word("False");
        self.expression()?;
        let body = self.whole("endautoescape")?;
        Ok(match is_off {
            true => StatementKind::Scope(body),
            false => StatementKind::Refused(
                "prompts are no HTML: autoescape must be false".into(),
            ),
        })
    }

    fn target(&mut self, may_be_member: bool) -> Outcome<Target> {
        let mut targets = Vec::new();
        let mut is_tuple = false;
        loop {
            targets.push(self.deeper(|p| p.target_item(may_be_member))?);
            if !self.skip_op(",") {
                break;
            }
            is_tuple = true;
            if self.is_word("in") || self.is_op("=") || self.is_op(")") {
                break;
            }
        }
        Ok(match is_tuple {
            true => Target::Tuple(targets),
            false => targets.remove(0),
        })
    }

    fn target_item(&mut self, may_be_member: bool) -> Outcome<Target> {
        if self.skip_op("(") {
            let target = self.target(may_be_member)?;
            self.expect_op(")")?;
            return Ok(target);
        }
        let name = self.expect_name()?;
        if matches!(
            &*name,
            "true" | "false" | "True" | "False" | "none" | "None"
        ) {
            return self.fail("can't assign to 'const'");
        }
        if &*name == "loop" && self.num_loops > 0 {
            return self.fail("can't assign to the loop's own variable");
        }
        if may_be_member && self.skip_op(".") {
            self.seen.push((name.clone(), true));
            return Ok(Target::Member(name, self.expect_name()?));
        }
        self.seen.push((name.clone(), false));
        Ok(Target::Name(name))
    }
}
