//! Pickles of plain data: read without running anything.
//!
//! A pickle is a program for a small machine with a stack (Python, `Lib/pickletools.py`). This one
//! does only what makes data: `None`, booleans, numbers, bytes, strings, lists, tuples, dicts.
//! Most programs also call functions; a handful of these, which NumPy uses to build arrays, types
//! and scalars and Python 3 to build bytes, are recognised by name and replaced by the data that
//! they stand for. **Any other name is refused, and nothing is ever looked up or called.**
//!
//! Strings of Python 2 are bytes here. Objects are kept in one list and refer to each other by
//! number, so shared and recursive objects cost nothing.
//!
//! Absent on purpose: protocol 0 except where later ones use it, integers beyond 64 bits,
//! structured types, sets, and writing.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::format::FormatError;
use crate::format::numpy::descr;
use crate::value::{ByteOrder, DType, NdArray, Order};

/// The maximum number of steps that push to the stack or the memo.
const MAX_STEPS: usize = 1 << 24;

/// Bytes are copied, where they must be, up to this multiple of the pickle's length: once from a
/// text and once into an array is enough for honest ones.
const MAX_COPIES: usize = 4;

/// Names of types are no longer than this, and arrays of NumPy have no more axes.
const MAX_NAME: usize = 64;

/// The functions that are known, by module and name.
const FUNCTIONS: [(&str, &str, Function); 9] = [
    ("numpy.core.multiarray", "_reconstruct", Function::Reconstruct),
    ("numpy._core.multiarray", "_reconstruct", Function::Reconstruct),
    ("numpy.core.multiarray", "scalar", Function::Scalar),
    ("numpy._core.multiarray", "scalar", Function::Scalar),
    ("numpy", "ndarray", Function::NdArray),
    ("numpy", "dtype", Function::DType),
    ("_codecs", "encode", Function::Encode),
    ("__builtin__", "bytes", Function::Bytes),
    ("builtins", "bytes", Function::Bytes),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Reconstruct,
    Scalar,
    NdArray,
    DType,
    Encode,
    Bytes,
}

/// A number in the row of objects.
type Id = usize;

#[derive(Debug, Clone)]
enum Node<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Bytes(Cow<'a, [u8]>),
    Text(&'a str),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Function(Function),
    Type(DType),
    /// An array that has not got its state yet.
    Blank,
    Array(NdArray<'a>),
}

/// A value that a pickle makes.
#[derive(Debug, Clone)]
pub struct Pickle<'a> {
    nodes: Vec<Node<'a>>,
    root: Id,
    /// Where it ends.
    end: usize,
}

/// An object of a pickle.
#[derive(Debug, Clone, Copy)]
pub struct Object<'p, 'a> {
    pickle: &'p Pickle<'a>,
    id: Id,
}

impl<'a> Pickle<'a> {
    /// Reads a whole pickle.
    pub fn parse(bytes: &'a [u8]) -> Result<Pickle<'a>, FormatError> {
        let mut machine = Machine::new(bytes);
        while machine.step()? {}
        let root = machine.pop()?;
        Ok(Pickle { nodes: machine.nodes, root, end: machine.at })
    }

    /// Where it ends: other bytes may follow it.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// The object that was pickled.
    pub fn root(&self) -> Object<'_, 'a> {
        Object { pickle: self, id: self.root }
    }
}

impl<'p, 'a> Object<'p, 'a> {
    fn node(self) -> &'p Node<'a> {
        &self.pickle.nodes[self.id]
    }

    /// The value under a name in a dict, whether string or bytes. The last one counts.
    pub fn get(self, name: &str) -> Option<Object<'p, 'a>> {
        let Node::Dict(entries) = self.node() else { return None };
        let object = |id| Object { pickle: self.pickle, id };
        let found = entries.iter().rev().find(|(key, _)| object(*key).as_name() == Some(name));
        found.map(|(_, value)| object(*value))
    }

    /// The names in a dict, each once; `None` for a key that is no name.
    pub(crate) fn names(self) -> impl Iterator<Item = Option<&'p str>> {
        let entries = match self.node() {
            Node::Dict(entries) => &entries[..],
            _ => &[],
        };
        let mut seen = HashSet::new();
        let names = entries.iter().map(move |(key, _)| Object { pickle: self.pickle, id: *key });
        names.map(Object::as_name).filter(move |name| name.is_none() || seen.insert(*name))
    }

    /// The items of a list or tuple.
    pub fn items(self) -> Option<impl ExactSizeIterator<Item = Object<'p, 'a>>> {
        match self.node() {
            Node::List(items) | Node::Tuple(items) => {
                Some(items.iter().map(move |&id| Object { pickle: self.pickle, id }))
            }
            _ => None,
        }
    }

    /// A text, or bytes that are UTF-8.
    pub fn as_name(self) -> Option<&'p str> {
        match self.node() {
            Node::Text(text) => Some(text),
            Node::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Bytes.
    pub fn as_bytes(self) -> Option<&'p [u8]> {
        match self.node() {
            Node::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// An integer, or a boolean as 0 or 1.
    pub fn as_int(self) -> Option<i64> {
        match self.node() {
            Node::Int(number) => Some(*number),
            Node::Bool(truth) => Some(i64::from(*truth)),
            _ => None,
        }
    }

    /// A float.
    pub fn as_float(self) -> Option<f64> {
        match self.node() {
            Node::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether it is `None`.
    pub fn is_none(self) -> bool {
        matches!(self.node(), Node::None)
    }

    /// An array; a scalar of NumPy is one without axes.
    pub fn as_array(self) -> Option<&'p NdArray<'a>> {
        match self.node() {
            Node::Array(array) => Some(array),
            _ => None,
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the step began that errors are about.
    start: usize,
    nodes: Vec<Node<'a>>,
    stack: Vec<Id>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
    memo: HashMap<usize, Id>,
    steps: usize,
    /// How many bytes may still be copied.
    copies: Cell<usize>,
}

impl<'a> Machine<'a> {
    fn new(bytes: &'a [u8]) -> Machine<'a> {
        let (nodes, stack, marks, memo) = Default::default();
        let copies = Cell::new(bytes.len().saturating_mul(MAX_COPIES));
        Machine { bytes, at: 0, start: 0, nodes, stack, marks, memo, steps: 0, copies }
    }

    /// Whether this many bytes may be copied.
    fn may_copy(&self, len: usize) -> bool {
        let left = self.copies.get().checked_sub(len);
        self.copies.set(left.unwrap_or(0));
        left.is_some()
    }

    /// One step; false after the last.
    fn step(&mut self) -> Result<bool, FormatError> {
        self.start = self.at;
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(self.error(format!("at most {MAX_STEPS} steps"), "more"));
        }
        match self.take(1)?[0] {
            b'.' => return Ok(false),
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'K' => self.push_int(1, false)?,
            b'M' => self.push_int(2, false)?,
            b'J' => self.push_int(4, true)?,
            0x8a => {
                let len = self.length(1)?;
                self.push_int(len, true)?;
            }
            b'G' => {
                let bytes = self.take(8)?.first_chunk().copied().unwrap_or_default();
                self.push(Node::Float(f64::from_be_bytes(bytes)));
            }
            b'I' | b'L' | b'F' => self.push_digits()?,
            code @ (b'X' | 0x8c | 0x8d) => {
                let bytes = self.sized(code, [0x8c, b'X', 0x8d])?;
                let text =
                    std::str::from_utf8(bytes).map_err(|_| self.error("UTF-8", "other bytes"))?;
                self.push(Node::Text(text));
            }
            code @ (b'U' | b'T') => {
                let bytes = self.sized(code, [b'U', b'T', 0])?;
                self.push(Node::Bytes(bytes.into()));
            }
            code @ (b'C' | b'B' | 0x8e) => {
                let bytes = self.sized(code, [b'C', b'B', 0x8e])?;
                self.push(Node::Bytes(bytes.into()));
            }
            b']' => self.push(Node::List(Vec::new())),
            b')' => self.push(Node::Tuple(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            b'l' => {
                let items = self.pop_mark()?;
                self.push(Node::List(items));
            }
            b't' => {
                let items = self.pop_mark()?;
                self.push(Node::Tuple(items));
            }
            b'd' => {
                let entries = self.pop_mark()?;
                self.push(Node::Dict(Vec::new()));
                self.set_items(&entries)?;
            }
            code @ 0x85..=0x87 => {
                let len = usize::from(code - 0x84);
                let items = self.pop_many(len)?;
                self.push(Node::Tuple(items));
            }
            b'a' => {
                let item = self.pop_many(1)?;
                self.append(&item)?;
            }
            b'e' => {
                let items = self.pop_mark()?;
                self.append(&items)?;
            }
            b's' => {
                let entry = self.pop_many(2)?;
                self.set_items(&entry)?;
            }
            b'u' => {
                let entries = self.pop_mark()?;
                self.set_items(&entries)?;
            }
            b'q' => self.put(1)?,
            b'r' => self.put(4)?,
            0x94 => {
                let top = self.top()?;
                self.memo.insert(self.memo.len(), top);
            }
            b'h' => self.recall(1)?,
            b'j' => self.recall(4)?,
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(module, name)?;
            }
            0x93 => {
                let names = self.pop_many(2)?;
                match (&self.nodes[names[0]], &self.nodes[names[1]]) {
                    (&Node::Text(module), &Node::Text(name)) => self.global(module, name)?,
                    _ => return Err(self.error("the name of a function", "something else")),
                }
            }
            b'R' => {
                let call = self.pop_many(2)?;
                let node = self.reduce(call[0], call[1])?;
                self.push(node);
            }
            b'b' => {
                let state = self.pop()?;
                self.build(state)?;
            }
            code => {
                return Err(self.error("a step that makes plain data", format!("code {code:#04x}")));
            }
        }
        Ok(true)
    }

    fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> FormatError {
        FormatError::new(self.start as u64, expected, found)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], FormatError> {
        let end = self.at.checked_add(len);
        let bytes = end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(|| {
            self.error(format!("{len} bytes"), format!("{} bytes", self.bytes.len() - self.at))
        })?;
        self.at += len;
        Ok(bytes)
    }

    /// A text up to the end of line.
    fn line(&mut self) -> Result<&'a str, FormatError> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n');
        let line = end.and_then(|end| std::str::from_utf8(&rest[..end]).ok());
        let line = line.ok_or_else(|| self.error("a line of text", "no end of it"))?;
        self.at += line.len() + 1;
        Ok(line)
    }

    fn length(&mut self, width: usize) -> Result<usize, FormatError> {
        let mut number = [0; 8];
        number[..width].copy_from_slice(self.take(width)?);
        usize::try_from(u64::from_le_bytes(number))
            .map_err(|_| self.error("a length", "a huge one"))
    }

    /// Bytes after their length, which has one, four or eight bytes by the code.
    fn sized(&mut self, code: u8, codes: [u8; 3]) -> Result<&'a [u8], FormatError> {
        let widths = codes.iter().zip([1, 4, 8]);
        let width = widths.filter(|(known, _)| **known == code).map(|(_, width)| width).next();
        let len = self.length(width.unwrap_or(8))?;
        self.take(len)
    }

    fn push_int(&mut self, width: usize, signed: bool) -> Result<(), FormatError> {
        if width > 8 {
            return Err(self.error("an integer of 64 bits", format!("one of {width} bytes")));
        }
        let bytes = self.take(width)?;
        let negative = signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
        let mut number = [if negative { 0xff } else { 0 }; 8];
        number[..width].copy_from_slice(bytes);
        self.push(Node::Int(i64::from_le_bytes(number)));
        Ok(())
    }

    /// A number in digits, as protocol 0 has it.
    fn push_digits(&mut self) -> Result<(), FormatError> {
        let code = self.bytes[self.start];
        let line = self.line()?;
        let node = match (code, line) {
            (b'I', "00") => Some(Node::Bool(false)),
            (b'I', "01") => Some(Node::Bool(true)),
            (b'F', digits) => digits.parse().ok().map(Node::Float),
            (_, digits) => digits.strip_suffix('L').unwrap_or(digits).parse().ok().map(Node::Int),
        };
        let node = node.ok_or_else(|| self.error("a number in digits", "something else"))?;
        self.push(node);
        Ok(())
    }

    fn push(&mut self, node: Node<'a>) {
        self.stack.push(self.nodes.len());
        self.nodes.push(node);
    }

    /// The top of the stack, if it is above the last mark.
    fn top(&self) -> Result<Id, FormatError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = self.stack.get(floor..).and_then(|above| above.last());
        top.copied().ok_or_else(|| self.error("something on the stack", "nothing"))
    }

    fn pop(&mut self) -> Result<Id, FormatError> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_many(&mut self, count: usize) -> Result<Vec<Id>, FormatError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let start = self.stack.len().checked_sub(count).filter(|&start| start >= floor);
        let start = start.ok_or_else(|| self.error("more on the stack", "less"))?;
        Ok(self.stack.split_off(start))
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>, FormatError> {
        let mark = self.marks.pop().ok_or_else(|| self.error("a mark", "none"))?;
        Ok(self.stack.split_off(mark))
    }

    fn put(&mut self, width: usize) -> Result<(), FormatError> {
        let at = self.length(width)?;
        let top = self.top()?;
        self.memo.insert(at, top);
        Ok(())
    }

    fn recall(&mut self, width: usize) -> Result<(), FormatError> {
        let at = self.length(width)?;
        let id = self.memo.get(&at).copied();
        let id = id.ok_or_else(|| self.error("something put aside", "nothing"))?;
        self.stack.push(id);
        Ok(())
    }

    fn append(&mut self, items: &[Id]) -> Result<(), FormatError> {
        let top = self.top()?;
        match &mut self.nodes[top] {
            Node::List(list) => list.extend_from_slice(items),
            _ => return Err(self.error("a list", "something else")),
        }
        Ok(())
    }

    fn set_items(&mut self, entries: &[Id]) -> Result<(), FormatError> {
        let top = self.top()?;
        let pairs = entries.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return Err(self.error("pairs", "an odd number"));
        }
        match &mut self.nodes[top] {
            Node::Dict(dict) => dict.extend(pairs.map(|pair| (pair[0], pair[1]))),
            _ => return Err(self.error("a dict", "something else")),
        }
        Ok(())
    }

    fn global(&mut self, module: &str, name: &str) -> Result<(), FormatError> {
        let known = FUNCTIONS.iter().find(|known| (known.0, known.1) == (module, name));
        let Some((_, _, function)) = known else {
            let found: String = format!("{module}.{name}").chars().take(60).collect();
            return Err(self.error("plain data", format!("the name {}", found.escape_debug())));
        };
        self.push(Node::Function(*function));
        Ok(())
    }

    /// The value of a call of a known function with these arguments.
    fn reduce(&self, function: Id, arguments: Id) -> Result<Node<'a>, FormatError> {
        let (Node::Function(function), Node::Tuple(arguments)) =
            (&self.nodes[function], &self.nodes[arguments])
        else {
            return Err(self.error("a function that makes data", "something else"));
        };
        let argument = |at: usize| arguments.get(at).map(|&id| &self.nodes[id]);
        let made = match function {
            Function::Reconstruct => match argument(0) {
                Some(Node::Function(Function::NdArray)) => Some(Node::Blank),
                _ => None,
            },
            Function::DType => argument(0).and_then(text_of).and_then(|name| {
                // Bare names such as "u1" and "f8"; their byte order comes with the state.
                let dtype = descr::parse(&name).ok().filter(|dtype| !dtype.has_objects());
                dtype.map(Node::Type)
            }),
            Function::Scalar => match (argument(0), argument(1)) {
                (Some(Node::Type(dtype)), Some(Node::Bytes(data))) => {
                    self.copy(data).and_then(|data| array_of(dtype, vec![], Order::C, data))
                }
                _ => None,
            },
            // Bytes as Python 3 hides them in protocol 2.
            Function::Encode => match (argument(0), argument(1).and_then(text_of).as_deref()) {
                (Some(Node::Text(text)), Some("latin1" | "latin-1"))
                    if self.may_copy(text.len()) =>
                {
                    let bytes: Option<Vec<u8>> =
                        text.chars().map(|c| u8::try_from(c).ok()).collect();
                    bytes.map(|bytes| Node::Bytes(bytes.into()))
                }
                _ => None,
            },
            Function::Bytes if arguments.is_empty() => Some(Node::Bytes(Cow::Borrowed(&[]))),
            Function::Bytes | Function::NdArray => None,
        };
        made.ok_or_else(|| {
            self.error("arguments that make data", format!("others of {function:?}"))
        })
    }

    /// Gives an array or a type its state.
    fn build(&mut self, state: Id) -> Result<(), FormatError> {
        let top = self.top()?;
        let Node::Tuple(state) = &self.nodes[state] else {
            return Err(self.error("a state in a tuple", "something else"));
        };
        let part = |at: usize| state.get(at).map(|&id| &self.nodes[id]);
        let built = match &self.nodes[top] {
            Node::Type(dtype) => {
                let order = part(1).and_then(text_of);
                let plain = matches!(
                    (part(2), part(3), part(4)),
                    (Some(Node::None), Some(Node::None), Some(Node::None))
                );
                let order = match order.as_deref() {
                    Some(">") => Some(ByteOrder::Big),
                    Some("<" | "=" | "|") => Some(ByteOrder::Little),
                    _ => None,
                };
                let order = order.filter(|_| plain);
                order.map(|order| Node::Type(dtype.clone().with_byte_order(order)))
            }
            Node::Blank => self.array(state),
            _ => None,
        };
        self.nodes[top] = built.ok_or_else(|| self.error("the state of an array", "another"))?;
        Ok(())
    }

    /// Version, shape, type, whether in Fortran order, elements.
    fn array(&self, state: &[Id]) -> Option<Node<'a>> {
        let part = |at: usize| state.get(at).map(|&id| &self.nodes[id]);
        let (Node::Tuple(lens), Node::Type(dtype)) = (part(1)?, part(2)?) else { return None };
        let len = |&id: &Id| match self.nodes[id] {
            Node::Int(len) => usize::try_from(len).ok(),
            _ => None,
        };
        if lens.len() > MAX_NAME {
            return None;
        }
        let shape: Vec<usize> = lens.iter().map(len).collect::<Option<_>>()?;
        let order = match part(3)? {
            Node::Bool(true) | Node::Int(1) => Order::F,
            Node::Bool(false) | Node::Int(0) => Order::C,
            _ => return None,
        };
        let Node::Bytes(data) = part(4)? else { return None };
        array_of(dtype, shape, order, self.copy(data)?)
    }

    /// The same bytes, borrowed from the file where they are in there.
    fn copy(&self, bytes: &Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
        let is_free = matches!(bytes, Cow::Borrowed(_)) || self.may_copy(bytes.len());
        is_free.then(|| bytes.clone())
    }
}

fn array_of<'a>(
    dtype: &DType,
    shape: Vec<usize>,
    order: Order,
    data: Cow<'a, [u8]>,
) -> Option<Node<'a>> {
    NdArray::with_order(dtype.clone(), shape, order, data).ok().map(Node::Array)
}

/// A short text, or bytes that are one.
fn text_of(node: &Node<'_>) -> Option<String> {
    match node {
        Node::Text(text) if text.len() <= MAX_NAME => Some((*text).to_owned()),
        Node::Bytes(bytes) if bytes.len() <= MAX_NAME => {
            std::str::from_utf8(bytes).ok().map(str::to_owned)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_dictionary() -> Result<(), Box<dyn std::error::Error>> {
        use crate::format::pickle::Pickle;

        // pickle.dumps({"labels": [6, 9]}, protocol=2)
        let bytes = b"\x80\x02}q\x00X\x06\0\0\0labelsq\x01]q\x02(K\x06K\x09es.";
        let pickle = Pickle::parse(bytes)?;
        let labels = pickle.root().get("labels").unwrap();
        let labels: Vec<_> = labels.items().unwrap().map(|label| label.as_int()).collect();
        assert_eq!(labels, [Some(6), Some(9)]);

        let err = Pickle::parse(b"cos\nsystem\n(S'true'\ntR.").unwrap_err();
        assert_eq!(err.to_string(), "byte 0: expected plain data, found the name os.system");
        Ok(())
    }

    /// As cPickle of Python 2 writes an array in protocol 2: the way of the original CIFAR files.
    const PYTHON2: &[u8] = b"\x80\x02}q\x01(U\x06labelsq\x04]q\x05(K\x06K\x09eU\x04dataq\x06\
        cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\x09\
        (K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x0aU\x02i2K\x00K\x01\x87Rq\x0b\
        (K\x03U\x01>NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x0c\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06tb\
        U\x04sizeq\x0cM\xe8\x03u.";

    fn error(bytes: &[u8]) -> String {
        Pickle::parse(bytes).unwrap_err().to_string()
    }

    #[test]
    fn arrays_of_python_2() {
        let pickle = Pickle::parse(PYTHON2).unwrap();
        let root = pickle.root();
        let array = root.get("data").unwrap().as_array().unwrap();
        assert_eq!(array.shape(), [2, 3]);
        assert_eq!(array.to_ndarray::<i16>().unwrap().as_slice().unwrap(), [1, 2, 3, 4, 5, 6]);
        let labels: Vec<_> = root.get("labels").unwrap().items().unwrap().collect();
        assert_eq!(labels.iter().map(|l| l.as_int()).collect::<Vec<_>>(), [Some(6), Some(9)]);
        assert_eq!(root.get("size").unwrap().as_int(), Some(1000));
        assert!(root.get("other").is_none() && root.items().is_none());
    }

    #[test]
    fn nothing_else_is_called() {
        for (bytes, name) in [
            (&b"cos\nsystem\n(S'true'\ntR."[..], "os.system"),
            (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", "builtins.eval"),
            (b"cnumpy.core.multiarray\nfromstring\n.", "numpy.core.multiarray.fromstring"),
            (b"cnumpy\nload\n.", "numpy.load"),
        ] {
            let found = error(bytes);
            assert!(
                found.ends_with(&format!("expected plain data, found the name {name}")),
                "{found}"
            );
        }
        // Known names, but not as NumPy uses them.
        for bytes in [
            &b"cnumpy\nndarray\n)R."[..],
            b"cnumpy.core.multiarray\n_reconstruct\n)R.",
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\ndtype\n\x85R.",
            b"cnumpy\ndtype\nU\x02O8\x85R.",
            b"cnumpy\ndtype\nU\x09[('a','O')\x85R.",
            b"c_codecs\nencode\nX\x01\0\0\0aU\x05utf-8\x86R.",
            b"NNR.",
            b"N(tb.",
            b")NR.",
        ] {
            assert!(Pickle::parse(bytes).is_err(), "{}", bytes.escape_ascii());
        }
        // Codes that build objects of classes, or fetch what is stored elsewhere.
        for code in [0x81, 0x92, b'i', b'o', b'P', b'Q', 0x82, 0x83, 0x84, 0x97, 0x98, b'S', b'V'] {
            let expected =
                format!("byte 0: expected a step that makes plain data, found code {code:#04x}");
            assert_eq!(error(&[code, 0, 0, 0, 0, 0]), expected);
        }
    }

    #[test]
    fn the_stack_is_looked_after() {
        for bytes in [
            &b"."[..],
            b"0.",
            b"a.",
            b"Na.",
            b"NNa.",
            b"(a.",
            b"t.",
            b"\x85.",
            b"(\x85.",
            b"N(s.",
            b"}(Nu.",
            b"(Nd.",
            b"]N(0.",
            b"h\0.",
            b"q\0.",
            b"N(q\0.",
            b"R.",
            b"b.",
            b"N",
            b"",
            b"\x80",
            b"X\xff\xff\xff\xffa.",
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa.",
            b"\x8a\x09aaaaaaaaa.",
            b"I1",
            b"Ix\n.",
            b"\x94.",
        ] {
            assert!(Pickle::parse(bytes).is_err(), "{}", bytes.escape_ascii());
        }
        let numbers = b"(I-5\nI01\nL12L\nF0.5\nG?\xe0\0\0\0\0\0\0\x8a\0\x8a\x01\xffJ\xfe\xff\xff\xffM\xff\xff\x8a\x02\0\x80t.";
        let pickle = Pickle::parse(numbers).unwrap();
        let items: Vec<_> = pickle.root().items().unwrap().collect();
        let ints: Vec<_> = items.iter().filter_map(|item| item.as_int()).collect();
        assert_eq!(ints, [-5, 1, 12, 0, -1, -2, 65535, -32768]);
        let floats: Vec<_> = items.iter().filter_map(|item| item.as_float()).collect();
        assert_eq!(floats, [0.5, 0.5]);
    }

    #[test]
    fn what_is_in_itself_costs_nothing() {
        // A list in itself, and lists of two of the one before, sixty times.
        let mut bytes = b"]q\0h\0a".to_vec();
        for at in 0..60u8 {
            bytes.extend([b'h', at, b'h', at, 0x86, b'q', at + 1]);
        }
        bytes.push(b'.');
        let pickle = Pickle::parse(&bytes).unwrap();
        assert_eq!(pickle.root().items().unwrap().len(), 2);
        // A text that every call would copy.
        let mut bytes = b"c_codecs\nencode\nq\0X\0\x10\0\0".to_vec();
        bytes.extend([b'a'; 4096]);
        bytes.extend(b"X\x06\0\0\0latin1\x86q\x01");
        bytes.extend(b"h\0h\x01R0".repeat(100));
        bytes.extend(b"N.");
        assert!(error(&bytes).contains("others of Encode"));
    }

    #[test]
    fn damage_never_panics() {
        for end in 0..PYTHON2.len() {
            assert!(Pickle::parse(&PYTHON2[..end]).is_err(), "{end}");
        }
        for at in 0..PYTHON2.len() {
            for value in 0..=255 {
                let mut changed = PYTHON2.to_vec();
                changed[at] = value;
                if let Ok(pickle) = Pickle::parse(&changed) {
                    let data = pickle.root().get("data").and_then(|data| data.as_array());
                    assert!(data.is_none_or(|data| data.bytes().len() <= PYTHON2.len()));
                }
            }
        }
    }
}
