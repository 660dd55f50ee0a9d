"""Pages as pictures: those of a PDF drawn, pictures decoded and turned upright. Runs in the confined process."""

import base64
import io
from typing import TYPE_CHECKING, Any, cast

from localrag.index.documents.load.content import Unreadable
from localrag.index.documents.load.open_file import OpenFile

if TYPE_CHECKING:
    from PIL.Image import Image

PICTURES = frozenset({".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp", ".gif"})
DPI = 300  # what Tesseract was trained at
MOST_PIXELS = 25_000_000  # of a page that is read: A3 at 300 dpi has 17 million
MOST_DECODED = 150_000_000  # of a picture that is opened
WIDEST = 2_000  # pixels of a picture that is shown
LARGEST = 16_000_000  # pixels of it
SMALLEST = 24  # pixels of a side: less holds no word
FAINTEST = 16  # of 255: a page without a greater difference is blank
_SCREEN = 100  # dpi that a picture says where nobody set any


def to_read(file: OpenFile, page: int) -> dict[str, Any]:
    """Page number `page`, from 1, as Tesseract is given it: grey, about 300 dpi, PGM in base64; or that it is blank. Raises Unreadable."""
    if file.suffix.lower() in PICTURES:
        image = _enlarged(opened(file, page))
    else:
        shown = _page(file, page)
        across, down = shown.get_size()
        scale = min(DPI / 72, (MOST_PIXELS / max(across * down, 1.0)) ** 0.5)
        image = shown.render(scale=scale, grayscale=True).to_pil()
    darkest, lightest = cast("tuple[int, int]", image.getextrema())
    if lightest - darkest < FAINTEST:
        return {"blank": True}
    data = io.BytesIO()
    image.save(data, "PPM")
    return {"image": base64.b64encode(data.getvalue()).decode()}


def picture(file: OpenFile, page: int, width: int) -> dict[str, Any]:
    """Page number `page`, from 1, as PNG in base64, `width` pixels wide. Raises Unreadable."""
    if file.suffix.lower() in PICTURES:
        image = opened(file, page, grey=False)
        scale = min(min(width, WIDEST) / image.width, (LARGEST / (image.width * image.height)) ** 0.5)
        image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    else:
        shown = _page(file, page)
        across, down = shown.get_size()
        scale = min(min(width, WIDEST) / across, (LARGEST / (across * down)) ** 0.5)
        image = shown.render(scale=scale).to_pil()
    data = io.BytesIO()
    image.save(data, "PNG")
    return {"png": base64.b64encode(data.getvalue()).decode()}


def _page(file: OpenFile, page: int) -> Any:
    import pypdfium2

    document = pypdfium2.PdfDocument(file.mapped())
    if not 0 < page <= len(document):
        raise Unreadable(f"it has no page {page}")
    return document[page - 1]


def frames(file: OpenFile) -> int:
    """How many pages a picture has; of one that moves its first is all. Raises Unreadable."""
    image = _decoded(file)
    if min(image.size) < SMALLEST:
        raise Unreadable("a picture too small for text")
    return int(getattr(image, "n_frames", 1)) if image.format == "TIFF" else 1


def opened(file: OpenFile, page: int, *, grey: bool = True) -> "Image":
    """A page of a picture, upright as its EXIF says, on white where it lets light through. Raises Unreadable, OSError (damaged)."""
    from PIL import Image, ImageOps

    image: Image.Image = _decoded(file)
    if page > 1:
        try:
            image.seek(page - 1)
        except EOFError as error:
            raise Unreadable(f"it has no page {page}") from error
        _check(image)
    image = ImageOps.exif_transpose(image)
    if "transparency" in image.info or image.mode in {"RGBA", "LA", "PA", "RGBa", "La"}:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    if image.mode.startswith("I") or image.mode == "F":  # 16 bits, which convert() would cut off
        low, high = image.getextrema()
        image = image.point(lambda v: (v - low) * (255 / max(high - low, 1)))  # type: ignore[operator]
    return image.convert("L" if grey else "RGB")


def _decoded(file: OpenFile) -> Any:
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # `_check` is before any pixel is decoded, and says it in words
    try:
        image = Image.open(file.open())
    except UnidentifiedImageError as error:
        raise Unreadable("damaged: it is no picture, whatever its name says", failed=True) from error
    _check(image)
    return image


def _check(image: Any) -> None:
    across, down = image.size
    if across * down > MOST_DECODED:
        raise Unreadable(f"too large a picture: {across:,} × {down:,} pixels, more than {MOST_DECODED // 10**6} million")


def _enlarged(image: "Image") -> "Image":
    """As large as at 300 dpi: by what the picture says of itself, or, of a screen, so that letters are 20 to 40 pixels high."""
    said = float((image.info.get("dpi") or (0, 0))[0] or 0)
    longest = max(image.size)
    factor = DPI / said if _SCREEN < said < DPI else 1.0 if said >= DPI else 3.0 if longest < 1_000 else 2.0 if longest < 2_200 else 1.0
    factor = min(factor, (MOST_PIXELS / (image.width * image.height)) ** 0.5)
    if factor == 1.0:
        return image
    from PIL import Image

    return image.resize((max(1, round(image.width * factor)), max(1, round(image.height * factor))), Image.Resampling.BICUBIC)
