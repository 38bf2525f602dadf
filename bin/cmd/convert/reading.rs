//! Options of `convert` that say how sources are read.

use std::path::PathBuf;

use kiste::convert::{ChromaSubsampling, Conversion, Format, Resize, StoredAs, TextEncoding};

use super::format;
use crate::cmd::{given, parse_size};
use crate::file;

/// How sources are read.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Reading")]
pub(super) struct Reading {
    /// The format of SRC: images, list, coco, jsonl, dataset, webdataset, tfrecord, mds, cifar10,
    /// cifar100, mnist, npz, csv, tsv, parquet or arrow [default: detected, where that is certain]
    #[arg(long, value_name = "FORMAT", value_parser = format::readable(), hide_possible_values = true)]
    from: Option<Format>,
    /// TFRecord: the features that are strings; other byte strings stay bytes
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    texts: Vec<String>,
    /// TFRecord: the features that are lists also where they have one value, as VarLenFeature reads them
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    lists: Vec<String>,
    /// CSV, TSV and lists: turn columns of numbers into numbers, labels of a list too; reads tables twice
    #[arg(long)]
    guess_types: bool,
    /// CSV, TSV and lists: the separator between values, such as ';' or tab [default: a tab in TSV
    /// and in lists that are not named .csv, else a comma]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// CSV, TSV and lists: the quote around values that contain the delimiter: '"', or none, which makes quotes
    /// ordinary characters and each line a row [default: '"']
    #[arg(long, value_name = "CHAR", value_parser = quote)]
    quote: Option<bool>,
    /// JSON lines: read names that begin with $ as ordinary names, as in JSON of other programs
    #[arg(long)]
    plain_json: bool,
    /// CSV, TSV, lists, JSON lines, COCO and folders of text files: the encoding of the text, such as utf-16, latin-1,
    /// cp1252, shift_jis or gb18030. Bytes that it does not have are bad input [default: utf-8]
    #[arg(long, value_name = "NAME")]
    encoding: Option<TextEncoding>,
    /// Refuse a file, line, row, record, sample of webdataset, page, batch or shard that is larger
    /// than this when decompressed [default: 1G; shards of mds and files of mnist 4G; all arrays of
    /// an npz together 16G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, alias = "max-file")]
    max_bytes: Option<usize>,
    /// Only these splits, of a SRC that folders, names of files or arrays divide into such as train and test. "{split}"
    /// in DST stands for the name: each has its own output then
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    splits: Vec<String>,
    /// Put files into samples: these fields hold paths, one or a list of them, which become the bytes of the files.
    /// Keys that are made of such a field are made of the path
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',')]
    load: Vec<String>,
    /// Make one dataset of several splits: samples get a field "split", and its name in front of their keys, unless
    /// --key-field or --key makes others
    #[arg(long)]
    merge_splits: bool,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    images: Images,
}

/// Which files, and what their labels are.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Files of images")]
struct Files {
    /// The files below SRC, or in it if it is a zip archive, such as 'train/{LABEL}/**'; within an
    /// archive * matches slashes. Can be repeated
    #[arg(long, value_name = "PATTERN")]
    pattern: Vec<String>,
    /// Only files that match, such as '*.png'; * matches slashes. Can be repeated
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Skip files that match. Can be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// The masks of images: a path in which * stands for the name of the image without its ending, such as
    /// 'masks/*.png', or '*_mask.png' next to the images. They become the field mask
    #[arg(long, value_name = "PATTERN")]
    masks: Option<String>,
    /// The folder that paths in a list are relative to, or with --load the files; without --load, a SRC that is a
    /// file is then a list [default: the folder of the list or table; of standard input the working directory]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Whether the first row of a list names the columns: yes or no [default: yes if a column is
    /// called path, file, file_name, filename or image]
    #[arg(long, value_name = "YES", value_parser = yes_or_no)]
    header: Option<bool>,
    /// All labels, one per line, in the order of their numbers, from 0 [default: those that occur, in natural
    /// order]
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Store labels as strings instead of numbers, also of datasets, Parquet, Arrow, COCO and CIFAR whose labels have
    /// names
    #[arg(long)]
    text_labels: bool,
}

/// Options for images.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Images")]
struct Images {
    /// Resize images: 1024 or max:1024 for the longer side, short:256 for the shorter one, both
    /// only downwards; 640x480 for exactly that
    #[arg(long, value_name = "SIZE", alias = "image-size", hide = !cfg!(feature = "images"))]
    resize: Option<Resize>,
    /// Enlarge small images too
    #[arg(long, requires = "resize", hide = !cfg!(feature = "images"))]
    upscale: bool,
    /// Encode images in another format: jpeg, png, webp (lossless) or keep [default: keep]
    #[arg(long, value_name = "FORMAT", hide = !cfg!(feature = "images"))]
    image_format: Option<StoredAs>,
    /// The quality of encoded JPEG, 1 to 100 [default: 90]
    #[arg(long, value_name = "Q", hide = !cfg!(feature = "images"),
        value_parser = clap::value_parser!(u8).range(1..=100))]
    quality: Option<u8>,
    /// The chroma subsampling of encoded JPEG: 4:4:4, 4:2:2 or 4:2:0 [default: 4:2:0]
    #[arg(long, value_name = "RATIO", hide = !cfg!(feature = "images"))]
    subsampling: Option<ChromaSubsampling>,
    /// Decode all images, to find damaged ones
    #[arg(long, hide = !cfg!(feature = "images"))]
    verify_images: bool,
    /// The fields that hold images [default: all that start like an image]
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', hide = !cfg!(feature = "images"))]
    image_fields: Vec<String>,
    /// Refuse images of more pixels than this [default: 200 million]
    #[arg(long, value_name = "N", hide = !cfg!(feature = "images"))]
    max_pixels: Option<u64>,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if ["tab", "\\t"].contains(&text) => Ok(b'\t'),
        // Line ends and quotes cannot separate values.
        [byte] if byte.is_ascii() && !b"\n\r\"".contains(byte) => Ok(*byte),
        _ => Err("expected one character of ASCII such as ';', or tab".to_owned()),
    }
}

/// Whether there are quotes.
fn quote(text: &str) -> Result<bool, String> {
    match text {
        "\"" => Ok(true),
        "none" => Ok(false),
        _ => Err("expected '\"' or none".to_owned()),
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".to_owned()),
    }
}

impl Reading {
    /// The conversion with these options.
    pub(super) fn apply(self, conversion: Conversion) -> Conversion {
        let Reading {
            from,
            texts,
            lists,
            guess_types,
            delimiter,
            quote,
            plain_json,
            encoding,
            max_bytes,
            splits,
            merge_splits,
            load,
            files,
            images,
        } = self;
        let conversion = conversion
            .texts(texts)
            .lists(lists)
            .allow_outside(file::allows_outside())
            .guess_types(guess_types)
            .plain_json(plain_json)
            .splits(splits)
            .merge_splits(merge_splits)
            .load(load)
            .pattern(files.pattern)
            .include(files.include)
            .exclude(files.exclude)
            .text_labels(files.text_labels)
            .upscale(images.upscale)
            .verify_images(images.verify_images)
            .image_fields(images.image_fields);
        let conversion = given(conversion, from, Conversion::from);
        let conversion = given(conversion, delimiter, Conversion::delimiter);
        let conversion = given(conversion, quote, Conversion::quotes);
        let conversion = given(conversion, encoding, Conversion::encoding);
        let conversion = given(conversion, max_bytes.map(|max| max as u64), Conversion::max_bytes);
        let conversion = given(conversion, files.root, Conversion::root);
        let conversion = given(conversion, files.masks, Conversion::masks);
        let conversion = given(conversion, files.header, Conversion::header);
        let conversion = given(conversion, files.labels, Conversion::labels);
        let conversion = given(conversion, images.resize, Conversion::resize);
        let conversion = given(conversion, images.image_format, Conversion::image_format);
        let conversion = given(conversion, images.quality, Conversion::quality);
        let conversion = given(conversion, images.subsampling, Conversion::subsampling);
        given(conversion, images.max_pixels, Conversion::max_pixels)
    }
}
