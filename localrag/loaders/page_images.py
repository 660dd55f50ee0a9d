"""Pages as images: PDF pages rendered, images decoded and rotated upright. Runs in the sandboxed parser process."""

import base64
import io
from typing import TYPE_CHECKING, Any, cast

from localrag.loaders.content import OpenFile, Unreadable
from localrag.loaders.file_kinds import first_bytes_kind

if TYPE_CHECKING:
    from PIL.Image import Image


IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".gif"})
DPI = 300  # the resolution Tesseract was trained on
MAX_RENDERED_PIXELS = 25_000_000  # of a page for OCR: A3 at 300 dpi has 17 million
MAX_DECODED_PIXELS = 150_000_000  # of an image that is opened
MAX_SHOWN_WIDTH = 2_000  # width of a displayed page in pixels
MAX_SHOWN_PIXELS = 16_000_000  # pixels of a displayed page
MIN_SIDE = 24  # pixels of a side: smaller images contain no words
BLANK_CONTRAST = 16  # of 255: a page with less contrast is blank
_SCREEN_DPI = 100  # default dpi in image files, which says nothing


def is_picture(file: OpenFile) -> bool:
    """Whether a file is shown as a picture, not as a PDF."""
    return (first_bytes_kind(file.read_bytes()[:1024]) or file.suffix.lower()) in IMAGE_SUFFIXES


def render_for_ocr(file: OpenFile, page: int) -> dict[str, Any]:
    """Page `page`, from 1, as Tesseract's input: gray, about 300 dpi, PGM in base64; or {"blank": True}. Raises Unreadable."""
    if is_picture(file):
        image = _enlarged(open_image(file, page))
    else:
        shown = _page(file, page)
        across, down = shown.get_size()
        scale = min(DPI / 72, (MAX_RENDERED_PIXELS / max(across * down, 1.0)) ** 0.5)
        image = shown.render(scale=scale, grayscale=True).to_pil()
    darkest, lightest = cast("tuple[int, int]", image.getextrema())
    if lightest - darkest < BLANK_CONTRAST:
        return {"blank": True}
    data = io.BytesIO()
    image.save(data, "PPM")
    return {"image": base64.b64encode(data.getvalue()).decode()}


def render_png(file: OpenFile, page: int, width: int) -> dict[str, Any]:
    """Page `page`, from 1, as PNG in base64, `width` pixels wide. Raises Unreadable."""
    if is_picture(file):
        image = open_image(file, page, grey=False)
        scale = min(min(width, MAX_SHOWN_WIDTH) / image.width, (MAX_SHOWN_PIXELS / (image.width * image.height)) ** 0.5)
        image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    else:
        shown = _page(file, page)
        across, down = shown.get_size()
        scale = min(min(width, MAX_SHOWN_WIDTH) / across, (MAX_SHOWN_PIXELS / (across * down)) ** 0.5)
        image = shown.render(scale=scale).to_pil()
    data = io.BytesIO()
    image.save(data, "PNG")
    return {"png": base64.b64encode(data.getvalue()).decode()}


def _page(file: OpenFile, page: int) -> Any:
    import pypdfium2

    document = pypdfium2.PdfDocument(file.read_bytes())
    if not 0 < page <= len(document):
        raise Unreadable(f"it has no page {page}")
    return document[page - 1]


def frame_count(file: OpenFile) -> int:
    """The number of pages of an image; 1 for an animation. Raises Unreadable."""
    image = _decoded(file)
    if min(image.size) < MIN_SIDE:
        raise Unreadable("a picture too small for text")
    return int(getattr(image, "n_frames", 1)) if image.format == "TIFF" else 1


def open_image(file: OpenFile, page: int, *, grey: bool = True) -> "Image":
    """A page of an image, upright by its EXIF, transparency on white. Raises Unreadable, OSError (damaged)."""
    from PIL import Image, ImageOps

    image: Image.Image = _decoded(file)
    if page > 1:
        try:
            image.seek(page - 1)
        except EOFError as error:
            raise Unreadable(f"it has no page {page}") from error
        _check(image)
    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    if image.mode.startswith("I") or image.mode == "F":  # 16 bits, which convert() would clip
        low, high = image.getextrema()
        image = image.point(lambda v: (v - low) * (255 / max(high - low, 1)))  # type: ignore[operator]
    return image.convert("L" if grey else "RGB")


def _decoded(file: OpenFile) -> Any:
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # `_check` runs before any pixel is decoded, with a clear message
    try:
        image = Image.open(file.open())
    except UnidentifiedImageError as error:
        raise Unreadable("damaged: it is not a picture, despite its name", failed=True) from error
    _check(image)
    return image


def _check(image: Any) -> None:
    across, down = image.size
    if across * down > MAX_DECODED_PIXELS:
        raise Unreadable(f"too large a picture: {across:,} × {down:,} pixels, more than {MAX_DECODED_PIXELS // 10**6} million")


def _enlarged(image: "Image") -> "Image":
    """Scale an image to 300 dpi by its own resolution, or a screenshot so that letters are 20 to 40 pixels high."""
    dpi = float((image.info.get("dpi") or (0, 0))[0] or 0)
    longest = max(image.size)
    factor = DPI / dpi if _SCREEN_DPI < dpi < DPI else 1.0 if dpi >= DPI else 3.0 if longest < 1_000 else 2.0 if longest < 2_200 else 1.0
    factor = min(factor, (MAX_RENDERED_PIXELS / (image.width * image.height)) ** 0.5)
    if factor == 1.0:
        return image
    from PIL import Image

    return image.resize((max(1, round(image.width * factor)), max(1, round(image.height * factor))), Image.Resampling.BICUBIC)
