//! The filters of lists, dicts and generators.

use std::rc::Rc;

use super::arguments::{flag_or, need_int, need_str, Arguments};
use super::compare::{equal, order, sorted};
use super::dict::{key_of, Key};
use super::error::{raise, Outcome};
use super::items::{iterate, Items};
use super::run::Render;
use super::syntax::Operator;
use super::value::{Value, View};

pub fn apply(
    render: &mut Render,
    name: &str,
    value: Value,
    arguments: Arguments,
) -> Outcome<Value> {
    match name {
        "list" => {
            arguments.none(name)?;
            Ok(Value::list(render.listed(&value)?.to_vec()))
        }
        "first" => {
            arguments.none(name)?;
            Ok(iterate(&value)?.next(render)?.unwrap_or_else(|| {
                Value::undefined("No first item, sequence was empty.")
            }))
        }
        "last" => last(render, &value, arguments),
        "items" => items(&value, arguments),
        "map" => Ok(map(value, arguments)),
        "select" | "reject" | "selectattr" | "rejectattr" => {
            Ok(select(name, value, arguments))
        }
        "unique" => unique(value, arguments),
        "batch" | "slice" => batch(name, value, arguments),
        "sort" => sort(render, &value, arguments),
        "dictsort" => dict_sort(render, &value, arguments),
        "groupby" => group_by(render, &value, arguments),
        "min" | "max" => extreme(render, name, &value, arguments),
        _ => sum(render, &value, arguments),
    }
}

/// An attribute's path: "a.b.0".
pub type Path = Vec<Value>;

fn parts(attribute: &str) -> Path {
    let parts = attribute.split('.').map(|part| match part.parse::<u32>() {
        Ok(index) if part.bytes().all(|b| b.is_ascii_digit()) => {
            Value::Int(i128::from(index))
        }
        _ => Value::from(part),
    });
    parts.collect()
}

impl Render {
    pub fn path(&mut self, attribute: Option<Value>) -> Outcome<Path> {
        Ok(match attribute {
            None | Some(Value::None) => Vec::new(),
            Some(Value::Str(text)) => parts(text.as_str()),
            Some(other) => vec![other],
        })
    }

    pub fn follow(
        &mut self,
        mut value: Value,
        path: &[Value],
        default: Option<&Value>,
    ) -> Outcome<Value> {
        for part in path {
            value = self.item(&value, part)?;
            if let (true, Some(default)) = (value.is_undefined(), default) {
                value = default.clone();
            }
        }
        Ok(value)
    }
}

/// As comparisons have it that look past case.
fn folded(value: Value, case_sensitive: bool) -> Value {
    match value.as_str() {
        Some(text) if !case_sensitive => Value::from(text.to_lowercase()),
        _ => value,
    }
}

fn last(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    arguments.none("last")?;
    let Some(mut items) = render.backwards(value)? else {
        return raise(format!(
            "'{}' object is not reversible",
            value.type_name()
        ));
    };
    Ok(items.next(render)?.unwrap_or_else(|| {
        Value::undefined("No last item, sequence was empty.")
    }))
}

fn items(value: &Value, arguments: Arguments) -> Outcome<Value> {
    arguments.none("items")?;
    Ok(Value::items(match value {
        Value::Undefined(_) => Items::Done,
        Value::Dict(dict) => Items::Entries(dict.clone(), View::Pairs, 0),
        _ => Items::made(|_| raise("Can only get item pairs from a mapping.")),
    }))
}

fn map(value: Value, arguments: Arguments) -> Value {
    if !value.is_true() {
        return Value::items(Items::Done);
    }
    let mut source = None;
    Value::items(Items::made(move |render| {
        let items = match &mut source {
            Some(items) => items,
            None => source.insert(iterate(&value)?),
        };
        let Some(item) = items.next(render)? else { return Ok(None) };
        mapped(render, item, arguments.clone()).map(Some)
    }))
}

fn mapped(
    render: &mut Render,
    item: Value,
    mut arguments: Arguments,
) -> Outcome<Value> {
    let by_path = arguments.positional.is_empty()
        && arguments.named.iter().any(|(name, _)| &**name == "attribute");
    if by_path {
        let [attribute, default] =
            arguments.bind("map", ["attribute", "default"], 1)?;
        let path = render.path(attribute)?;
        let default = default.filter(|value| !matches!(value, Value::None));
        return render.follow(item, &path, default.as_ref());
    }
    if arguments.positional.is_empty() {
        return raise("map requires a filter argument");
    }
    let name = arguments.positional.remove(0);
    render.filter(need_str(&name)?, item, arguments)
}

fn select(name: &str, value: Value, arguments: Arguments) -> Value {
    if !value.is_true() {
        return Value::items(Items::Done);
    }
    let by_attribute = name.ends_with("attr");
    let keeps = name.starts_with("select");
    let mut source = None;
    Value::items(Items::made(move |render| {
        let items = match &mut source {
            Some(items) => items,
            None => source.insert(iterate(&value)?),
        };
        while let Some(item) = items.next(render)? {
            let tested = item.clone();
            let given = arguments.clone();
            if passes(render, tested, given, by_attribute)? == keeps {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }))
}

fn passes(
    render: &mut Render,
    mut item: Value,
    mut arguments: Arguments,
    by_attribute: bool,
) -> Outcome<bool> {
    if by_attribute {
        if arguments.positional.is_empty() {
            return raise("Missing parameter for attribute name");
        }
        let path = render.path(Some(arguments.positional.remove(0)))?;
        item = render.follow(item, &path, None)?;
    }
    if arguments.positional.is_empty() {
        return Ok(item.is_true());
    }
    let name = arguments.positional.remove(0);
    render.test(need_str(&name)?, &item, arguments)
}

fn unique(value: Value, arguments: Arguments) -> Outcome<Value> {
    let [case, attribute] =
        arguments.bind("unique", ["case_sensitive", "attribute"], 0)?;
    let case = flag_or(case, false);
    let mut source = None;
    let mut seen: Vec<Key> = Vec::new();
    Ok(Value::items(Items::made(move |render| {
        let items = match &mut source {
            Some(items) => items,
            None => source.insert(iterate(&value)?),
        };
        while let Some(item) = items.next(render)? {
            let path = render.path(attribute.clone())?;
            let key = render.follow(item.clone(), &path, None)?;
            let key = key_of(&folded(key, case))?;
            render.step(seen.len() as u64 / 8)?;
            if !seen.contains(&key) {
                seen.push(key);
                return Ok(Some(item));
            }
        }
        Ok(None)
    })))
}

fn batch(name: &str, value: Value, arguments: Arguments) -> Outcome<Value> {
    let size = if name == "batch" { "linecount" } else { "slices" };
    let [size, fill] = arguments.bind(name, [size, "fill_with"], 1)?;
    let size = need_int(&size.unwrap_or(Value::None))?;
    let is_batch = name == "batch";
    let fill = fill.filter(|value| !matches!(value, Value::None));
    let mut made = None;
    Ok(Value::items(Items::made(move |render| {
        let made = match &mut made {
            Some(made) => made,
            None => {
                let items = render.listed(&value)?;
                let lists = match is_batch {
                    true => batches(render, &items, size, &fill)?,
                    false => slices(render, &items, size, &fill)?,
                };
                made.insert(Items::of(lists))
            }
        };
        made.next(render)
    })))
}

fn batches(
    render: &mut Render,
    items: &[Value],
    size: i128,
    fill: &Option<Value>,
) -> Outcome<Vec<Value>> {
    let size = usize::try_from(size).unwrap_or(0);
    if size == 0 {
        // Never full: Python begins no second one, or one for each item.
        return Ok(match items.is_empty() {
            true => Vec::new(),
            false => std::iter::once(Value::list(Vec::new()))
                .chain(items.iter().map(|item| Value::list(vec![item.clone()])))
                .collect(),
        });
    }
    render.room_for_items(size.min(items.len()))?;
    let mut lists: Vec<Vec<Value>> =
        items.chunks(size).map(<[Value]>::to_vec).collect();
    if let (Some(last), Some(fill)) = (lists.last_mut(), fill) {
        render.room_for_items(size)?;
        last.resize(size, fill.clone());
    }
    Ok(lists.into_iter().map(Value::list).collect())
}

fn slices(
    render: &mut Render,
    items: &[Value],
    num: i128,
    fill: &Option<Value>,
) -> Outcome<Vec<Value>> {
    if num == 0 {
        return raise("integer division or modulo by zero");
    }
    let num = usize::try_from(num).unwrap_or(0);
    render.room_for_items(num)?;
    let mut lists = Vec::new();
    let mut at = 0;
    for i in 0..num {
        let is_longer = i < items.len() % num;
        let end = at + items.len() / num + usize::from(is_longer);
        let mut list = items[at..end].to_vec();
        if !is_longer {
            list.extend(fill.clone());
        }
        lists.push(Value::list(list));
        at = end;
    }
    Ok(lists)
}

fn sort(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let [reverse, case, attribute] = arguments.bind(
        "sort",
        ["reverse", "case_sensitive", "attribute"],
        0,
    )?;
    let case = flag_or(case, false);
    let paths = match &attribute {
        Some(Value::Str(text)) => text.as_str().split(',').map(parts).collect(),
        _ => vec![render.path(attribute)?],
    };
    let items = render.listed(value)?;
    let mut keyed = Vec::new();
    for item in items.iter() {
        let mut keys = Vec::new();
        for path in &paths {
            let key = render.follow(item.clone(), path, None)?;
            keys.push(folded(key, case));
        }
        keyed.push((Value::list(keys), item.clone()));
    }
    sorted(render, keyed, flag_or(reverse, false)).map(Value::list)
}

fn dict_sort(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let [case, by, reverse] =
        arguments.bind("dictsort", ["case_sensitive", "by", "reverse"], 0)?;
    let case = flag_or(case, false);
    let by = by.unwrap_or_else(|| Value::from("key"));
    let by_key = match by.as_str() {
        Some("key") => true,
        Some("value") => false,
        _ => return raise("You can only sort by either \"key\" or \"value\""),
    };
    let Value::Dict(dict) = value else {
        return match value {
            Value::Undefined(undefined) => raise(&*undefined.why),
            other => raise(format!(
                "'{}' object has no attribute 'items'",
                other.type_name()
            )),
        };
    };
    let keyed = dict.entries().iter().map(|(key, value)| {
        let sorted_by = if by_key { key } else { value };
        let pair = Value::tuple(vec![key.clone(), value.clone()]);
        (folded(sorted_by.clone(), case), pair)
    });
    let keyed = keyed.collect();
    sorted(render, keyed, flag_or(reverse, false)).map(Value::list)
}

fn group_by(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let [attribute, default, case] = arguments.bind(
        "groupby",
        ["attribute", "default", "case_sensitive"],
        1,
    )?;
    let case = flag_or(case, false);
    let path = render.path(attribute)?;
    let default = default.filter(|value| !matches!(value, Value::None));
    let items = render.listed(value)?;
    let mut keyed = Vec::new();
    for item in items.iter() {
        let key = render.follow(item.clone(), &path, default.as_ref())?;
        let pair = Value::tuple(vec![key.clone(), item.clone()]);
        keyed.push((folded(key, case), pair));
    }
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for pair in sorted(render, keyed, false)? {
        let pair = render.listed(&pair)?;
        let (key, item) = (pair[0].clone(), pair[1].clone());
        let sorted_by = folded(key.clone(), case);
        match groups.last_mut() {
            Some(group) if equal(&group.0, &sorted_by)? => group.2.push(item),
            _ => groups.push((sorted_by, key, vec![item])),
        }
    }
    let groups = groups.into_iter().map(|(_, key, items)| {
        Value::Group(Rc::new(vec![key, Value::list(items)]))
    });
    Ok(Value::list(groups.collect()))
}

fn extreme(
    render: &mut Render,
    name: &str,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let [case, attribute] =
        arguments.bind(name, ["case_sensitive", "attribute"], 0)?;
    let case = flag_or(case, false);
    let path = render.path(attribute)?;
    let mut items = iterate(value)?;
    let mut best: Option<(Value, Value)> = None;
    while let Some(item) = items.next(render)? {
        let key = render.follow(item.clone(), &path, None)?;
        let key = folded(key, case);
        let (wanted, symbol) = match name {
            "min" => (std::cmp::Ordering::Less, "<"),
            _ => (std::cmp::Ordering::Greater, ">"),
        };
        let is_better = match &best {
            None => true,
            Some((other, _)) => order(&key, other, symbol)? == Some(wanted),
        };
        if is_better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or_else(
        || Value::undefined("No aggregated item, sequence was empty."),
        |(_, item)| item,
    ))
}

fn sum(
    render: &mut Render,
    value: &Value,
    arguments: Arguments,
) -> Outcome<Value> {
    let [attribute, start] =
        arguments.bind("sum", ["attribute", "start"], 0)?;
    let path = render.path(attribute)?;
    let mut total = start.unwrap_or(Value::Int(0));
    if total.as_str().is_some() {
        return raise("sum() can't sum strings [use ''.join(seq) instead]");
    }
    let mut items = iterate(value)?;
    while let Some(item) = items.next(render)? {
        let item = render.follow(item, &path, None)?;
        total = render.binary(Operator::Add, &total, &item)?;
    }
    Ok(total)
}
