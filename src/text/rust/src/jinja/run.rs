//! Runs a template's statements.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::arguments::Arguments;
use super::dict::Dict;
use super::error::{raise, Error, Kind, Outcome};
use super::functions::Function;
use super::items::iterate;
use super::parser;
use super::scope::Scope;
use super::syntax::{Applied, Name, Statement, StatementKind, Target};
use super::value::{Macro, Value};

#[derive(Clone, Copy)]
pub struct Limits {
    /// Nodes that are evaluated, and work that is as much.
    pub max_steps: u64,
    pub max_bytes: usize,
    /// How deep macros call one another.
    pub max_depth: usize,
}

/// A parsed template; threads may share it.
pub struct Template {
    source: String,
    body: Vec<Statement>,
}

impl Template {
    pub fn parse(source: &str) -> Outcome<Template> {
        let body = parser::parse(source)?;
        Ok(Template { source: source.to_owned(), body })
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// `given` goes before the functions of every template. The caller gives
    /// it a stack that deep values do not exhaust.
    pub fn render(
        &self,
        given: &[(&str, Value)],
        now_unix_s: i64,
        limits: Limits,
    ) -> Outcome<String> {
        let mut names = Function::globals();
        for (name, value) in given {
            names.insert((*name).into(), value.clone());
        }
        let mut render = Render::new(names, now_unix_s, limits);
        let top = render.top.clone();
        render.run(&self.body, &top)?;
        Ok(render.buffers.pop().unwrap_or_default())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    On,
    Break,
    Continue,
}

/// One rendering.
pub struct Render {
    pub limits: Limits,
    pub now_unix_s: i64,
    pub loop_name: Name,
    steps_left: u64,
    depth: usize,
    /// Of the template, and of what is captured inside it.
    buffers: Vec<String>,
    top: Rc<Scope>,
    /// What may hold itself and so must be ended.
    scopes: Vec<Rc<Scope>>,
    namespaces: Vec<Rc<RefCell<Dict>>>,
}

impl Drop for Render {
    fn drop(&mut self) {
        for scope in &self.scopes {
            scope.clear();
        }
        self.top.clear();
        for namespace in &self.namespaces {
            let _dict = std::mem::take(&mut *namespace.borrow_mut());
        }
    }
}

impl Render {
    fn new(
        given: HashMap<Box<str>, Value>,
        now_unix_s: i64,
        limits: Limits,
    ) -> Render {
        Render {
            limits,
            now_unix_s,
            loop_name: "loop".into(),
            steps_left: limits.max_steps,
            depth: 0,
            buffers: vec![String::new()],
            top: Scope::inside(&Scope::outermost(given)),
            scopes: Vec::new(),
            namespaces: Vec::new(),
        }
    }

    pub fn step(&mut self, num_steps: u64) -> Outcome<()> {
        let max_steps = self.limits.max_steps;
        self.steps_left =
            self.steps_left.checked_sub(num_steps).ok_or_else(|| {
                Error::new(
                    Kind::Steps,
                    format!("must end within {max_steps} steps, does not"),
                )
            })?;
        Ok(())
    }

    /// That a text of so many bytes may be made.
    pub fn room_for(&mut self, num_bytes: usize) -> Outcome<()> {
        let max_bytes = self.limits.max_bytes;
        if num_bytes > max_bytes {
            return Err(Error::new(
                Kind::Size,
                format!("text must be at most {max_bytes} bytes, is longer"),
            ));
        }
        self.step(num_bytes as u64 / 256)
    }

    /// That a list may have so many items.
    pub fn room_for_items(&mut self, num_items: usize) -> Outcome<()> {
        self.room_for(num_items.saturating_mul(std::mem::size_of::<Value>()))
    }

    fn write(&mut self, text: &str) -> Outcome<()> {
        let buffer = self.buffers.last().map_or(0, String::len);
        if buffer + text.len() > self.limits.max_bytes {
            return self.room_for(buffer + text.len());
        }
        if let Some(buffer) = self.buffers.last_mut() {
            buffer.push_str(text);
        }
        Ok(())
    }

    /// What `body` writes, as a text.
    pub fn captured(
        &mut self,
        body: impl FnOnce(&mut Render) -> Outcome<()>,
    ) -> Outcome<Value> {
        if self.depth >= self.limits.max_depth {
            return raise("maximum recursion depth exceeded");
        }
        self.depth += 1;
        self.buffers.push(String::new());
        let ended = body(self);
        self.depth -= 1;
        let text = self.buffers.pop().unwrap_or_default();
        ended.map(|()| Value::from(text))
    }

    pub fn keep_namespace(&mut self, dict: Dict) -> Value {
        let namespace = Rc::new(RefCell::new(dict));
        self.namespaces.push(namespace.clone());
        Value::Namespace(namespace)
    }

    pub fn run(
        &mut self,
        body: &[Statement],
        scope: &Rc<Scope>,
    ) -> Outcome<Flow> {
        for statement in body {
            let flow = self
                .statement(&statement.kind, scope)
                .map_err(|error| error.at(statement.line))?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn statement(
        &mut self,
        kind: &StatementKind,
        scope: &Rc<Scope>,
    ) -> Outcome<Flow> {
        self.step(1)?;
        match kind {
            StatementKind::Data(text) => self.write(text)?,
            StatementKind::Print(value) => {
                let value = self.eval(value, scope)?;
                match value.as_str() {
                    Some(text) => self.write(text)?,
                    None => {
                        let text = self.str_of(&value)?;
                        self.write(&text)?;
                    }
                }
            }
            StatementKind::If(branches) => {
                for (test, body) in branches {
                    let holds = match test {
                        Some(test) => self.eval(test, scope)?.is_true(),
                        None => true,
                    };
                    if holds {
                        return self.run(body, scope);
                    }
                }
            }
            StatementKind::For(node) => {
                // A loop ends its own breaks.
                self.run_for(node, scope)?;
            }
            StatementKind::Set(target, value) => {
                let value = self.eval(value, scope)?;
                self.assign(target, value, scope)?;
            }
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
            StatementKind::Refused(why) => return raise(&**why),
            other => return self.block(other, scope),
        }
        Ok(Flow::On)
    }

    /// What has a scope of its own.
    fn block(
        &mut self,
        kind: &StatementKind,
        scope: &Rc<Scope>,
    ) -> Outcome<Flow> {
        let inner = Scope::inside(scope);
        match kind {
            StatementKind::With(values, body) => {
                for (target, value) in values {
                    let value = self.eval(value, scope)?;
                    self.assign(target, value, &inner)?;
                }
                return self.run(body, &inner);
            }
            StatementKind::Scope(body) => return self.run(body, &inner),
            StatementKind::Block(is_scoped, body) => {
                let around = if *is_scoped { inner } else { self.top.clone() };
                self.run(body, &Scope::inside(&around))?;
            }
            StatementKind::SetBlock(target, filters, body) => {
                let text = self
                    .captured(|render| render.run(body, &inner).map(|_| ()))?;
                let value = self.apply_all(filters, text, &inner)?;
                self.assign(target, value, scope)?;
            }
            StatementKind::FilterBlock(filters, body) => {
                let text = self
                    .captured(|render| render.run(body, &inner).map(|_| ()))?;
                let value = self.apply_all(filters, text, &inner)?;
                let text = self.str_of(&value)?;
                self.write(&text)?;
            }
            StatementKind::Macro(node) => {
                let defined = self.closure(Macro {
                    node: node.clone(),
                    scope: scope.clone(),
                });
                if let Some(name) = &node.name {
                    scope.set(name, defined);
                }
            }
            StatementKind::Call(node, call) => {
                let caller = self.closure(Macro {
                    node: node.clone(),
                    scope: scope.clone(),
                });
                let value = self.eval_call(call, Some(caller), scope)?;
                let text = self.str_of(&value)?;
                self.write(&text)?;
            }
            _ => unreachable!("statement() runs the others"),
        }
        Ok(Flow::On)
    }

    fn closure(&mut self, defined: Macro) -> Value {
        self.scopes.push(defined.scope.clone());
        Value::Macro(Rc::new(defined))
    }

    fn apply_all(
        &mut self,
        filters: &[Applied],
        mut value: Value,
        scope: &Rc<Scope>,
    ) -> Outcome<Value> {
        for filter in filters {
            let arguments: Arguments =
                self.arguments(&filter.arguments, scope)?;
            value = self
                .filter(&filter.name, value, arguments)
                .map_err(|error| error.at(filter.line))?;
        }
        Ok(value)
    }

    pub fn assign(
        &mut self,
        target: &Target,
        value: Value,
        scope: &Rc<Scope>,
    ) -> Outcome<()> {
        match target {
            Target::Name(name) => scope.set(name, value),
            Target::Member(name, member) => match scope.get(name) {
                Some(Value::Namespace(namespace)) => {
                    check_member(member)?;
                    namespace
                        .borrow_mut()
                        .insert(Value::text(member), value)?;
                }
                _ => {
                    return raise(
                        "cannot assign attribute on non-namespace object",
                    )
                }
            },
            Target::Tuple(targets) => {
                let mut items = iterate(&value)?;
                let mut values = Vec::new();
                while values.len() <= targets.len() {
                    let Some(item) = items.next(self)? else { break };
                    values.push(item);
                }
                if values.len() > targets.len() {
                    return raise(format!(
                        "too many values to unpack (expected {})",
                        targets.len()
                    ));
                }
                if values.len() < targets.len() {
                    return raise(format!(
                        "not enough values to unpack (expected {}, got {})",
                        targets.len(),
                        values.len()
                    ));
                }
                for (target, value) in targets.iter().zip(values) {
                    self.assign(target, value, scope)?;
                }
            }
        }
        Ok(())
    }
}

/// As transformers' namespace.
pub fn check_member(name: &str) -> Outcome<()> {
    if name.starts_with('_') {
        return raise(format!(
            "Chat templates cannot store underscore-prefixed attributes on a \
             namespace, but got '{name}'. Please rename the attribute."
        ));
    }
    Ok(())
}
