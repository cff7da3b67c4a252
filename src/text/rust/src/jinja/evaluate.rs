//! The values of expressions.

use std::rc::Rc;

use super::arguments::Arguments;
use super::compare::{compare, contains};
use super::dict::Dict;
use super::error::{raise, Outcome};
use super::items::iterate;
use super::run::Render;
use super::scope::Scope;
use super::slices;
use super::syntax::{CallArguments, Comparison, Constant, Expr, ExprKind};
use super::value::{Text, Value};

/// What a list or a dict costs beside its items: it is freed by recursion.
const CONTAINER_STEPS: u64 = 4;

impl Render {
    pub fn eval(&mut self, expr: &Expr, scope: &Rc<Scope>) -> Outcome<Value> {
        self.value(expr, scope).map_err(|error| error.at(expr.line))
    }

    fn value(&mut self, expr: &Expr, scope: &Rc<Scope>) -> Outcome<Value> {
        self.step(1)?;
        Ok(match &expr.kind {
            ExprKind::Constant(constant) => of_constant(constant),
            ExprKind::Name(name) => scope.get(name).unwrap_or_else(|| {
                Value::undefined(format!("'{name}' is undefined"))
            }),
            ExprKind::Tuple(items) => Value::tuple(self.all(items, scope)?),
            ExprKind::List(items) => Value::list(self.all(items, scope)?),
            ExprKind::Dict(items) => self.dict(items, scope)?,
            ExprKind::Not(value) => {
                Value::Bool(!self.eval(value, scope)?.is_true())
            }
            ExprKind::Negative(value) => {
                let value = self.eval(value, scope)?;
                self.negative(&value)?
            }
            ExprKind::Positive(value) => {
                let value = self.eval(value, scope)?;
                self.positive(&value)?
            }
            ExprKind::And(left, right) => {
                let left = self.eval(left, scope)?;
                match left.is_true() {
                    true => self.eval(right, scope)?,
                    false => left,
                }
            }
            ExprKind::Or(left, right) => {
                let left = self.eval(left, scope)?;
                match left.is_true() {
                    true => left,
                    false => self.eval(right, scope)?,
                }
            }
            ExprKind::Binary(operator, left, right) => {
                let left = self.eval(left, scope)?;
                let right = self.eval(right, scope)?;
                self.binary(*operator, &left, &right)?
            }
            ExprKind::Concat(items) => self.concat(items, scope)?,
            ExprKind::Compare(first, others) => {
                self.comparison(first, others, scope)?
            }
            ExprKind::If(test, then, otherwise) => {
                if self.eval(test, scope)?.is_true() {
                    return self.eval(then, scope);
                }
                match otherwise {
                    Some(otherwise) => self.eval(otherwise, scope)?,
                    None => Value::undefined(format!(
                        "the inline if-expression on line {} evaluated to \
                         false and no else section was defined.",
                        expr.line
                    )),
                }
            }
            ExprKind::Attribute(object, name) => {
                let object = self.eval(object, scope)?;
                self.attribute(&object, name)?
            }
            ExprKind::Item(object, index) => {
                let object = self.eval(object, scope)?;
                if let ExprKind::Slice(parts) = &index.kind {
                    let bounds = self.bounds(parts, scope)?;
                    return slices::slice(self, &object, bounds);
                }
                let index = self.eval(index, scope)?;
                self.item(&object, &index)?
            }
            ExprKind::Slice(_) => return raise("unhashable type: 'slice'"),
            ExprKind::Call(..) => self.eval_call(expr, None, scope)?,
            ExprKind::Filter(value, applied) => {
                let value = self.eval(value, scope)?;
                let arguments = self.arguments(&applied.arguments, scope)?;
                self.filter(&applied.name, value, arguments)?
            }
            ExprKind::Test(value, applied) => {
                let value = self.eval(value, scope)?;
                let arguments = self.arguments(&applied.arguments, scope)?;
                Value::Bool(self.test(&applied.name, &value, arguments)?)
            }
        })
    }

    fn all(
        &mut self,
        items: &[Expr],
        scope: &Rc<Scope>,
    ) -> Outcome<Vec<Value>> {
        self.step(CONTAINER_STEPS)?;
        items.iter().map(|item| self.eval(item, scope)).collect()
    }

    fn dict(
        &mut self,
        items: &[(Expr, Expr)],
        scope: &Rc<Scope>,
    ) -> Outcome<Value> {
        self.step(CONTAINER_STEPS)?;
        let mut dict = Dict::default();
        for (key, value) in items {
            let key = self.eval(key, scope)?;
            let value = self.eval(value, scope)?;
            dict.insert(key, value)?;
        }
        Ok(Value::Dict(Rc::new(dict)))
    }

    fn concat(&mut self, items: &[Expr], scope: &Rc<Scope>) -> Outcome<Value> {
        let mut text = String::new();
        for item in items {
            let value = self.eval(item, scope)?;
            match value.as_str() {
                Some(more) => text.push_str(more),
                None => text.push_str(&self.str_of(&value)?),
            }
            self.room_for(text.len())?;
        }
        Ok(Value::from(text))
    }

    fn comparison(
        &mut self,
        first: &Expr,
        others: &[(Comparison, Expr)],
        scope: &Rc<Scope>,
    ) -> Outcome<Value> {
        let mut left = self.eval(first, scope)?;
        for (operator, right) in others {
            let right = self.eval(right, scope)?;
            let holds = match operator {
                Comparison::In => contains(self, &right, &left)?,
                Comparison::NotIn => !contains(self, &right, &left)?,
                _ => compare(*operator, &left, &right)?,
            };
            if !holds {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn bounds(
        &mut self,
        parts: &[Option<Expr>; 3],
        scope: &Rc<Scope>,
    ) -> Outcome<[Value; 3]> {
        let mut bounds = [Value::None, Value::None, Value::None];
        for (bound, part) in bounds.iter_mut().zip(parts) {
            if let Some(part) = part {
                *bound = self.eval(part, scope)?;
            }
        }
        Ok(bounds)
    }

    pub fn arguments(
        &mut self,
        given: &CallArguments,
        scope: &Rc<Scope>,
    ) -> Outcome<Arguments> {
        let mut arguments = Arguments::default();
        for value in &given.positional {
            arguments.positional.push(self.eval(value, scope)?);
        }
        if let Some(more) = &given.more {
            let more = self.eval(more, scope)?;
            let mut items = iterate(&more)?;
            while let Some(item) = items.next(self)? {
                arguments.positional.push(item);
            }
        }
        for (name, value) in &given.named {
            let value = self.eval(value, scope)?;
            arguments.named.push((name.clone(), value));
        }
        if let Some(more) = &given.more_named {
            let Value::Dict(dict) = self.eval(more, scope)? else {
                return raise("argument after ** must be a mapping");
            };
            for (name, value) in dict.entries() {
                let Some(name) = name.as_str() else {
                    return raise("keywords must be strings");
                };
                if arguments.named.iter().any(|(other, _)| **other == *name) {
                    return raise(format!(
                        "got multiple values for keyword argument '{name}'"
                    ));
                }
                arguments.named.push((name.into(), value.clone()));
            }
        }
        Ok(arguments)
    }

    /// A call, and who calls where it is a call block's.
    pub fn eval_call(
        &mut self,
        call: &Expr,
        caller: Option<Value>,
        scope: &Rc<Scope>,
    ) -> Outcome<Value> {
        let ExprKind::Call(callee, given) = &call.kind else {
            return raise("expected call");
        };
        let callee = self.eval(callee, scope)?;
        let mut arguments = self.arguments(given, scope)?;
        if let Some(caller) = caller {
            arguments.named.push(("caller".into(), caller));
        }
        self.call(&callee, arguments).map_err(|error| error.at(call.line))
    }
}

fn of_constant(constant: &Constant) -> Value {
    match constant {
        Constant::None => Value::None,
        Constant::Bool(flag) => Value::Bool(*flag),
        Constant::Int(number) => Value::Int(*number),
        Constant::Float(number) => Value::Float(*number),
        Constant::Str(text) => Value::Str(Text::new(text, false)),
    }
}
