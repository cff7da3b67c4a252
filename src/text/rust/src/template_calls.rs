//! The C interface of chat templates.

use crate::template::{ChatTemplate, Files, Input};
use crate::{answer, sure, text, NamedSlice, Slice, Text};

/// A template beside the main one.
#[repr(C)]
pub struct NamedTemplate {
    name: Slice,
    file: NamedSlice,
}

#[repr(C)]
pub struct TemplateFiles {
    jinja: NamedSlice,
    config: NamedSlice,
    special_map: NamedSlice,
    additional: *const NamedTemplate,
    num_additional: usize,
}

#[no_mangle]
pub unsafe extern "C" fn winnow_chat_template_load(
    files: TemplateFiles,
    out: *mut *mut ChatTemplate,
    error: *mut Text,
) -> i32 {
    unsafe {
        let additional = match files.num_additional {
            0 => &[],
            size => std::slice::from_raw_parts(files.additional, size),
        };
        let additional = additional.iter().filter_map(|template| {
            let name = String::from_utf8_lossy(template.name.bytes());
            Some((name.into_owned(), template.file.get()?))
        });
        let files = Files {
            jinja: files.jinja.get(),
            config: files.config.get(),
            special_map: files.special_map.get(),
            additional: additional.collect(),
        };
        answer(
            error,
            |template| out.write(Box::into_raw(Box::new(template))),
            || ChatTemplate::load(&files),
        )
    }
}

#[no_mangle]
pub unsafe extern "C" fn winnow_chat_template_free(
    chat_template: *mut ChatTemplate,
) {
    sure((), || drop(unsafe { Box::from_raw(chat_template) }));
}

#[no_mangle]
pub unsafe extern "C" fn winnow_chat_template_tool_source(
    chat_template: &ChatTemplate,
) -> Text {
    sure(text(String::new()), || text(chat_template.tool_source()))
}

#[no_mangle]
pub unsafe extern "C" fn winnow_chat_template_complaints(
    chat_template: &ChatTemplate,
) -> Text {
    sure(text(String::new()), || text(chat_template.complaints()))
}

#[repr(C)]
pub struct ChatInput {
    messages: Slice,
    extra: Slice,
    now_unix_s: i64,
    add_generation_prompt: bool,
    continue_last: bool,
}

#[no_mangle]
pub unsafe extern "C" fn winnow_chat_template_render(
    chat_template: &ChatTemplate,
    input: ChatInput,
    out: *mut Text,
    error: *mut Text,
) -> i32 {
    unsafe {
        let input = Input {
            messages: input.messages.bytes(),
            extra: input.extra.get(),
            now_unix_s: input.now_unix_s,
            add_generation_prompt: input.add_generation_prompt,
            continue_last: input.continue_last,
        };
        answer(
            error,
            |rendered| out.write(text(rendered)),
            || chat_template.render(&input),
        )
    }
}
