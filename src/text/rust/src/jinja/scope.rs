//! The variables that a place of a template sees.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::syntax::Name;
use super::value::Value;

#[derive(Default)]
pub struct Scope {
    around: Option<Rc<Scope>>,
    /// Few, and so searched one by one.
    names: RefCell<Vec<(Name, Value)>>,
    /// Of the outermost: what the rendering is given.
    given: HashMap<Box<str>, Value>,
}

impl Scope {
    pub fn outermost(given: HashMap<Box<str>, Value>) -> Rc<Scope> {
        Rc::new(Scope { given, ..Scope::default() })
    }

    pub fn inside(around: &Rc<Scope>) -> Rc<Scope> {
        Rc::new(Scope { around: Some(around.clone()), ..Scope::default() })
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        let mut scope = self;
        loop {
            let names = scope.names.borrow();
            let found = names.iter().find(|(known, _)| **known == *name);
            if let Some((_, value)) = found {
                return Some(value.clone());
            }
            drop(names);
            match &scope.around {
                Some(around) => scope = around,
                None => return scope.given.get(name).cloned(),
            }
        }
    }

    pub fn set(&self, name: &Name, value: Value) {
        let mut names = self.names.borrow_mut();
        match names.iter_mut().find(|(known, _)| known == name) {
            Some(entry) => entry.1 = value,
            None => names.push((name.clone(), value)),
        }
    }

    /// Ends what it holds, which may hold the scope itself.
    pub fn clear(&self) {
        // Dropped once nothing is borrowed.
        let _names = std::mem::take(&mut *self.names.borrow_mut());
    }
}
