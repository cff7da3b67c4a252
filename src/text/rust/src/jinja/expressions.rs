//! The expressions of a template, by precedence.

use super::error::Outcome;
use super::lexer::Tok;
use super::parser::Parser;
use super::syntax::{
    Applied, CallArguments, Comparison, Constant, Expr, ExprKind, Operator,
};

fn node(line: u32, kind: ExprKind) -> Expr {
    Expr { line, kind }
}

fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

impl Parser {
    /// Expressions between commas are a tuple. `in_for`: `recursive` ends it.
    pub fn tuple(&mut self, with_if: bool, in_for: bool) -> Outcome<Expr> {
        let (line, mut items, mut is_tuple) = (self.line(), Vec::new(), false);
        while !self.ends_tuple(in_for) {
            items.push(match with_if {
                true => self.expression()?,
                false => self.deeper(Self::or)?,
            });
            if !self.skip_op(",") {
                break;
            }
            is_tuple = true;
        }
        if is_tuple {
            return Ok(node(line, ExprKind::Tuple(items)));
        }
        match items.pop() {
            Some(only) => Ok(only),
            None => self
                .fail(format!("Expected an expression, got {}", self.shown())),
        }
    }

    fn ends_tuple(&self, in_for: bool) -> bool {
        matches!(self.tok(), Tok::PrintEnd | Tok::BlockEnd)
            || self.is_op(")")
            || (in_for && self.is_word("recursive"))
    }

    pub fn expression(&mut self) -> Outcome<Expr> {
        self.deeper(Self::condition)
    }

    fn condition(&mut self) -> Outcome<Expr> {
        let line = self.line();
        let mut value = self.or()?;
        while self.skip_word("if") {
            self.chain()?;
            let test = self.or()?;
            let otherwise = match self.skip_word("else") {
                true => Some(boxed(self.expression()?)),
                false => None,
            };
            value =
                node(line, ExprKind::If(boxed(test), boxed(value), otherwise));
        }
        Ok(value)
    }

    fn or(&mut self) -> Outcome<Expr> {
        let line = self.line();
        let mut left = self.and()?;
        while self.skip_word("or") {
            self.chain()?;
            let right = self.and()?;
            left = node(line, ExprKind::Or(boxed(left), boxed(right)));
        }
        Ok(left)
    }

    fn and(&mut self) -> Outcome<Expr> {
        let line = self.line();
        let mut left = self.not()?;
        while self.skip_word("and") {
            self.chain()?;
            let right = self.not()?;
            left = node(line, ExprKind::And(boxed(left), boxed(right)));
        }
        Ok(left)
    }

    fn not(&mut self) -> Outcome<Expr> {
        let line = self.line();
        if self.skip_word("not") {
            let value = self.deeper(Self::not)?;
            return Ok(node(line, ExprKind::Not(boxed(value))));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Outcome<Expr> {
        let line = self.line();
        let first = self.sum()?;
        let mut others = Vec::new();
        while let Some(operator) = self.skip_comparison() {
            others.push((operator, self.sum()?));
        }
        Ok(match others.is_empty() {
            true => first,
            false => node(line, ExprKind::Compare(boxed(first), others)),
        })
    }

    fn skip_comparison(&mut self) -> Option<Comparison> {
        let not_in = self.is_word("not")
            && matches!(self.look(), Tok::Name(name) if **name == *"in");
        if not_in {
            self.next();
            self.next();
            return Some(Comparison::NotIn);
        }
        let operator = match self.tok() {
            Tok::Name(name) if **name == *"in" => Comparison::In,
            Tok::Op("==") => Comparison::Eq,
            Tok::Op("!=") => Comparison::Ne,
            Tok::Op("<") => Comparison::Lt,
            Tok::Op("<=") => Comparison::Le,
            Tok::Op(">") => Comparison::Gt,
            Tok::Op(">=") => Comparison::Ge,
            _ => return None,
        };
        self.next();
        Some(operator)
    }

    fn binary(
        &mut self,
        operators: &[(&str, Operator)],
        operand: fn(&mut Self) -> Outcome<Expr>,
    ) -> Outcome<Expr> {
        let line = self.line();
        let mut left = operand(self)?;
        while let Some((_, operator)) =
            operators.iter().find(|(op, _)| self.skip_op(op))
        {
            self.chain()?;
            let right = operand(self)?;
            let sides = (boxed(left), boxed(right));
            left = node(line, ExprKind::Binary(*operator, sides.0, sides.1));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Outcome<Expr> {
        const SUMS: [(&str, Operator); 2] =
            [("+", Operator::Add), ("-", Operator::Sub)];
        self.binary(&SUMS, Self::concat)
    }

    fn concat(&mut self) -> Outcome<Expr> {
        let line = self.line();
        let mut items = vec![self.product()?];
        while self.skip_op("~") {
            items.push(self.product()?);
        }
        Ok(match items.len() {
            1 => items.remove(0),
            _ => node(line, ExprKind::Concat(items)),
        })
    }

    fn product(&mut self) -> Outcome<Expr> {
        const PRODUCTS: [(&str, Operator); 4] = [
            ("*", Operator::Mul),
            ("//", Operator::FloorDiv),
            ("/", Operator::Div),
            ("%", Operator::Mod),
        ];
        self.binary(&PRODUCTS, Self::power)
    }

    fn power(&mut self) -> Outcome<Expr> {
        self.binary(&[("**", Operator::Pow)], |parser| parser.unary(true))
    }

    fn unary(&mut self, with_filter: bool) -> Outcome<Expr> {
        let line = self.line();
        let value = if self.skip_op("-") {
            let value = self.deeper(|parser| parser.unary(false))?;
            node(line, ExprKind::Negative(boxed(value)))
        } else if self.skip_op("+") {
            let value = self.deeper(|parser| parser.unary(false))?;
            node(line, ExprKind::Positive(boxed(value)))
        } else {
            self.primary()?
        };
        let value = self.postfix(value)?;
        match with_filter {
            true => self.filtered(value),
            false => Ok(value),
        }
    }

    fn primary(&mut self) -> Outcome<Expr> {
        let line = self.line();
        let constant = match self.tok() {
            Tok::Name(name) => match &**name {
                "true" | "True" => Constant::Bool(true),
                "false" | "False" => Constant::Bool(false),
                "none" | "None" => Constant::None,
                _ => {
                    let name = name.clone();
                    self.seen.push((name.clone(), true));
                    self.next();
                    return Ok(node(line, ExprKind::Name(name)));
                }
            },
            Tok::Int(number) => Constant::Int(*number),
            Tok::Float(number) => Constant::Float(*number),
            Tok::Str(_) => return self.strings(),
            Tok::Op("(") => {
                self.next();
                let value = match self.is_op(")") {
                    true => node(line, ExprKind::Tuple(Vec::new())),
                    false => self.deeper(|p| p.tuple(true, false))?,
                };
                self.expect_op(")")?;
                return Ok(value);
            }
            Tok::Op("[") => return self.list(),
            Tok::Op("{") => return self.dict(),
            _ => return self.fail(format!("unexpected {}", self.shown())),
        };
        self.next();
        Ok(node(line, ExprKind::Constant(constant)))
    }

    /// Those that stand side by side are one.
    fn strings(&mut self) -> Outcome<Expr> {
        let (line, mut text) = (self.line(), String::new());
        while let Tok::Str(more) = self.tok() {
            text.push_str(more);
            self.next();
        }
        let constant = Constant::Str(text.into());
        Ok(node(line, ExprKind::Constant(constant)))
    }

    fn list(&mut self) -> Outcome<Expr> {
        let (line, mut items) = (self.line(), Vec::new());
        self.next();
        while !self.is_op("]") {
            if !items.is_empty() {
                self.expect_op(",")?;
                if self.is_op("]") {
                    break;
                }
            }
            items.push(self.expression()?);
        }
        self.expect_op("]")?;
        Ok(node(line, ExprKind::List(items)))
    }

    fn dict(&mut self) -> Outcome<Expr> {
        let (line, mut items) = (self.line(), Vec::new());
        self.next();
        while !self.is_op("}") {
            if !items.is_empty() {
                self.expect_op(",")?;
                if self.is_op("}") {
                    break;
                }
            }
            let key = self.expression()?;
            self.expect_op(":")?;
            items.push((key, self.expression()?));
        }
        self.expect_op("}")?;
        Ok(node(line, ExprKind::Dict(items)))
    }

    fn postfix(&mut self, mut value: Expr) -> Outcome<Expr> {
        loop {
            let line = self.line();
            if self.skip_op(".") {
                self.chain()?;
                value = match self.tok() {
                    Tok::Int(index) => {
                        let index = ExprKind::Constant(Constant::Int(*index));
                        self.next();
                        let index = boxed(node(line, index));
                        node(line, ExprKind::Item(boxed(value), index))
                    }
                    _ => {
                        let name = self.expect_name()?;
                        node(line, ExprKind::Attribute(boxed(value), name))
                    }
                };
            } else if self.skip_op("[") {
                self.chain()?;
                let index = boxed(self.subscript(line)?);
                value = node(line, ExprKind::Item(boxed(value), index));
            } else if self.is_op("(") {
                value = self.call(value)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn call(&mut self, value: Expr) -> Outcome<Expr> {
        let line = self.line();
        self.chain()?;
        let arguments = Box::new(self.call_arguments()?);
        Ok(node(line, ExprKind::Call(boxed(value), arguments)))
    }

    fn subscript(&mut self, line: u32) -> Outcome<Expr> {
        let (mut items, mut is_tuple) = (Vec::new(), false);
        while !self.is_op("]") {
            items.push(self.subscript_item()?);
            if !self.skip_op(",") {
                break;
            }
            is_tuple = true;
        }
        self.expect_op("]")?;
        Ok(match items.len() {
            1 if !is_tuple => items.remove(0),
            _ => node(line, ExprKind::Tuple(items)),
        })
    }

    fn subscript_item(&mut self) -> Outcome<Expr> {
        let line = self.line();
        let mut parts = [None, None, None];
        if !self.is_op(":") {
            let first = self.expression()?;
            if !self.is_op(":") {
                return Ok(first);
            }
            parts[0] = Some(first);
        }
        for part in &mut parts[1..] {
            if !self.skip_op(":") {
                break;
            }
            if !self.is_op(":") && !self.is_op("]") && !self.is_op(",") {
                *part = Some(self.expression()?);
            }
        }
        Ok(node(line, ExprKind::Slice(Box::new(parts))))
    }

    fn call_arguments(&mut self) -> Outcome<CallArguments> {
        const WRONG: &str = "invalid syntax for function call expression";
        self.expect_op("(")?;
        let mut arguments = CallArguments::default();
        let mut any = false;
        while !self.is_op(")") {
            if any {
                self.expect_op(",")?;
                if self.is_op(")") {
                    break;
                }
            }
            any = true;
            let none_named = arguments.more_named.is_none();
            let none_more = arguments.more.is_none() && none_named;
            if self.skip_op("*") {
                if !none_more {
                    return self.fail(WRONG);
                }
                arguments.more = Some(boxed(self.expression()?));
            } else if self.skip_op("**") {
                if !none_named {
                    return self.fail(WRONG);
                }
                arguments.more_named = Some(boxed(self.expression()?));
            } else if matches!(self.look(), Tok::Op("="))
                && matches!(self.tok(), Tok::Name(_))
            {
                if !none_named {
                    return self.fail(WRONG);
                }
                let name = self.expect_name()?;
                self.next();
                arguments.named.push((name, self.expression()?));
            } else {
                if !none_more || !arguments.named.is_empty() {
                    return self.fail(WRONG);
                }
                arguments.positional.push(self.expression()?);
            }
        }
        self.expect_op(")")?;
        Ok(arguments)
    }

    fn filtered(&mut self, mut value: Expr) -> Outcome<Expr> {
        loop {
            let line = self.line();
            if self.skip_op("|") {
                self.chain()?;
                let applied = Box::new(self.applied()?);
                value = node(line, ExprKind::Filter(boxed(value), applied));
            } else if self.skip_word("is") {
                self.chain()?;
                value = self.test(value, line)?;
            } else if self.is_op("(") {
                value = self.call(value)?;
            } else {
                return Ok(value);
            }
        }
    }

    /// A filter's name and what it is given.
    pub fn applied(&mut self) -> Outcome<Applied> {
        let line = self.line();
        let mut name = self.expect_name()?;
        while self.skip_op(".") {
            name = format!("{name}.{}", self.expect_name()?).into();
        }
        let arguments = match self.is_op("(") {
            true => self.call_arguments()?,
            false => CallArguments::default(),
        };
        Ok(Applied { line, name, arguments })
    }

    fn test(&mut self, value: Expr, line: u32) -> Outcome<Expr> {
        let negated = self.skip_word("not");
        let mut applied = self.applied()?;
        let begins = match self.tok() {
            Tok::Name(name) => !matches!(&**name, "else" | "or" | "and"),
            Tok::Str(_) | Tok::Int(_) | Tok::Float(_) => true,
            Tok::Op(op) => matches!(*op, "[" | "{"),
            _ => false,
        };
        let given = &applied.arguments;
        let has_none = given.positional.is_empty()
            && given.named.is_empty()
            && given.more.is_none();
        if begins && has_none && !self.after_call() {
            if self.is_word("is") {
                return self.fail("You cannot chain multiple tests with is");
            }
            let argument = self.primary()?;
            let argument = self.postfix(argument)?;
            applied.arguments.positional.push(argument);
        }
        let test = node(line, ExprKind::Test(boxed(value), Box::new(applied)));
        Ok(match negated {
            true => node(line, ExprKind::Not(boxed(test))),
            false => test,
        })
    }
}
