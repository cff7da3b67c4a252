//! The `for` statement, and the variable `loop` of its body.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::arguments::Arguments;
use super::compare::equal;
use super::error::{raise, Outcome};
use super::items::{iterate, Items};
use super::run::{Flow, Render};
use super::scope::Scope;
use super::syntax::ForNode;
use super::value::Value;

/// The names of what `loop` calls.
pub const LOOP_METHODS: [&str; 2] = ["cycle", "changed"];

pub struct Loop {
    node: Arc<ForNode>,
    scope: Rc<Scope>,
    depth0: usize,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    items: Items,
    length: Option<usize>,
    /// How many were begun.
    index: usize,
    /// The next one, where it was looked at before its time.
    after: Option<Option<Value>>,
    current: Option<Value>,
    before: Option<Value>,
    changed: Option<Vec<Value>>,
}

impl Loop {
    pub fn advance(&self, render: &mut Render) -> Outcome<Option<Value>> {
        self.peek(render)?;
        let mut state = self.state.borrow_mut();
        let next = state.after.take().flatten();
        if let Some(item) = &next {
            state.index += 1;
            state.before = state.current.replace(item.clone());
        } else {
            state.after = Some(None);
        }
        Ok(next)
    }

    fn peek(&self, render: &mut Render) -> Outcome<Option<Value>> {
        if let Some(after) = &self.state.borrow().after {
            return Ok(after.clone());
        }
        let mut items = std::mem::take(&mut self.state.borrow_mut().items);
        let next = items.next(render)?;
        let mut state = self.state.borrow_mut();
        state.items = items;
        state.after = Some(next.clone());
        Ok(next)
    }

    pub fn length(&self, render: &mut Render) -> Outcome<usize> {
        if let Some(length) = self.state.borrow().length {
            return Ok(length);
        }
        let mut items = std::mem::take(&mut self.state.borrow_mut().items);
        let mut rest = Vec::new();
        while let Some(item) = items.next(render)? {
            rest.push(item);
        }
        let mut state = self.state.borrow_mut();
        let ahead = usize::from(matches!(state.after, Some(Some(_))));
        let length = state.index + ahead + rest.len();
        state.items = Items::of(rest);
        state.length = Some(length);
        Ok(length)
    }

    pub fn index(&self) -> usize {
        self.state.borrow().index
    }

    pub fn member(
        &self,
        name: &str,
        render: &mut Render,
    ) -> Outcome<Option<Value>> {
        let index = self.index() as i128;
        let int = |number| Ok(Some(Value::Int(number)));
        match name {
            "index" => int(index),
            "index0" => int(index - 1),
            "length" => int(self.length(render)? as i128),
            "revindex" => int(self.length(render)? as i128 - index + 1),
            "revindex0" => int(self.length(render)? as i128 - index),
            "first" => Ok(Some(Value::Bool(index == 1))),
            "last" => Ok(Some(Value::Bool(self.peek(render)?.is_none()))),
            "depth" => int(self.depth0 as i128 + 1),
            "depth0" => int(self.depth0 as i128),
            "previtem" => {
                let before = self.state.borrow().before.clone();
                let none = || Value::undefined("there is no previous item");
                Ok(Some(before.unwrap_or_else(none)))
            }
            "nextitem" => {
                let none = || Value::undefined("there is no next item");
                Ok(Some(self.peek(render)?.unwrap_or_else(none)))
            }
            _ => Ok(None),
        }
    }

    pub fn call_method(
        &self,
        name: &str,
        arguments: Arguments,
    ) -> Outcome<Value> {
        if !arguments.named.is_empty() {
            return raise(format!("{name}() takes no keyword arguments"));
        }
        let values = arguments.positional;
        if name == "cycle" {
            if values.is_empty() {
                return raise("no items for cycling given");
            }
            let at = self.index().saturating_sub(1) % values.len();
            return Ok(values[at].clone());
        }
        let mut state = self.state.borrow_mut();
        let (now, last) =
            (Value::tuple(values.clone()), state.changed.replace(values));
        match last {
            None => Ok(Value::Bool(true)),
            Some(last) => Ok(Value::Bool(!equal(&now, &Value::tuple(last))?)),
        }
    }
}

impl Render {
    pub fn run_for(
        &mut self,
        node: &Arc<ForNode>,
        scope: &Rc<Scope>,
    ) -> Outcome<Flow> {
        let over = self.eval(&node.over, scope)?;
        self.run_loop(node, over, scope, 0)
    }

    /// `loop(over)` of a recursive one.
    pub fn recurse(&mut self, outer: &Loop, over: Value) -> Outcome<Value> {
        if !outer.node.is_recursive {
            return raise(
                "The loop must have the 'recursive' marker to be called \
                 recursively.",
            );
        }
        let (node, scope) = (outer.node.clone(), outer.scope.clone());
        let depth0 = outer.depth0 + 1;
        self.captured(|render| {
            render.run_loop(&node, over, &scope, depth0).map(|_| ())
        })
    }

    fn run_loop(
        &mut self,
        node: &Arc<ForNode>,
        over: Value,
        scope: &Rc<Scope>,
        depth0: usize,
    ) -> Outcome<Flow> {
        let items = iterate(&over)?;
        let (items, length) = match &node.filter {
            None => (items, over.len()),
            Some(_) => (filtered(node.clone(), items, scope.clone()), None),
        };
        let state = State { items, length, ..State::default() };
        let this = Rc::new(Loop {
            node: node.clone(),
            scope: scope.clone(),
            depth0,
            state: RefCell::new(state),
        });
        let name = self.loop_name.clone();
        while let Some(item) = this.advance(self)? {
            let inner = Scope::inside(scope);
            self.assign(&node.target, item, &inner)?;
            inner.set(&name, Value::Loop(this.clone()));
            if self.run(&node.body, &inner)? == Flow::Break {
                break;
            }
        }
        if this.index() == 0 {
            return self.run(&node.otherwise, &Scope::inside(scope));
        }
        Ok(Flow::On)
    }
}

/// What the loop's `if` lets pass, each tested when its turn comes.
fn filtered(node: Arc<ForNode>, mut items: Items, scope: Rc<Scope>) -> Items {
    Items::made(move |render| {
        while let Some(item) = items.next(render)? {
            let inner = Scope::inside(&scope);
            render.assign(&node.target, item.clone(), &inner)?;
            let passes = match &node.filter {
                Some(test) => render.eval(test, &inner)?.is_true(),
                None => true,
            };
            if passes {
                return Ok(Some(item));
            }
        }
        Ok(None)
    })
}
