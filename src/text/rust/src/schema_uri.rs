//! References of URIs (RFC 3986), as far as the schemas of one document need
//! them: which of them a reference names.

/// What stands before "#", and behind it as it was meant.
pub fn split_fragment(reference: &str) -> (&str, String) {
    match reference.split_once('#') {
        Some((address, fragment)) => (address, unescaped(fragment)),
        None => (reference, String::new()),
    }
}

/// The bytes that escapes stand for; what is no escape stays as it is.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digit = |at: usize| {
            behind.get(at).and_then(|c| char::from(*c).to_digit(16))
        };
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// An address without fragment, in its parts (RFC 3986, 3).
struct Parts<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(address: &'a str) -> Self {
        let (scheme, rest) = match address.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
            _ => (None, address),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let (authority, path) =
                    rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(authority), path)
            }
            None => (None, rest),
        };
        Parts { scheme, authority, path, query }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// The address that `reference` means within `base` (RFC 3986, 5.2.2).
pub fn resolved(base: &str, reference: &str) -> String {
    let (own, base) = (Parts::of(reference), Parts::of(base));
    if own.scheme.is_some() {
        let path = without_dots(own.path);
        return joined(own.scheme, own.authority, &path, own.query);
    }
    if own.authority.is_some() {
        let path = without_dots(own.path);
        return joined(base.scheme, own.authority, &path, own.query);
    }
    if own.path.is_empty() {
        let query = own.query.or(base.query);
        return joined(base.scheme, base.authority, base.path, query);
    }
    let path = if own.path.starts_with('/') {
        without_dots(own.path)
    } else if base.authority.is_some() && base.path.is_empty() {
        without_dots(&format!("/{}", own.path))
    } else {
        let folder = base.path.rfind('/').map_or("", |at| &base.path[..=at]);
        without_dots(&format!("{folder}{}", own.path))
    };
    joined(base.scheme, base.authority, &path, own.query)
}

/// RFC 3986, 5.2.4.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." | ".." => {
                // Never what stands before the first "/".
                if part == ".." && kept.len() > 1 {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            _ => kept.push(part),
        }
    }
    kept.join("/")
}

fn joined(
    scheme: Option<&str>,
    authority: Option<&str>,
    path: &str,
    query: Option<&str>,
) -> String {
    let mut address = String::new();
    if let Some(scheme) = scheme {
        address = format!("{}:", scheme.to_ascii_lowercase());
    }
    if let Some(authority) = authority {
        address += &format!("//{}", authority.to_ascii_lowercase());
    }
    address += path;
    if let Some(query) = query {
        address += &format!("?{query}");
    }
    address
}
