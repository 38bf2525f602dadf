"""Types of samples: functions that return dicts with certain keys.

>>> ImageData("a.jpg", b"...")
{'key': 'a.jpg', 'image': b'...'}
"""

from typing import Any

__all__ = [
    "ADE20kData",
    "ANP460Data",
    "ANP460Experiment",
    "ImageClassificationData",
    "ImageCoarseClassificationData",
    "ImageData",
    "ImageDisparitySegmentationData",
    "ImageInstanceSegmentationData",
    "ImageNet21kData",
    "ImageSegmentationData",
    "MaskedImageSegmentationData",
    "Places2017Data",
    "SaliencyData",
    "SaliencyExperiment",
    "SaliencyTimeseriesExperiment",
]


def ADE20kData(
    key: Any, image: Any, label: Any, label_image: Any, parts_images: Any
) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(
        key=key,
        image=image,
        label=label,
        label_image=label_image,
        parts_images=parts_images,
    )


def ANP460Data(key: Any, image: Any, experiments: Any, anp: Any, type: Any) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image, experiments=experiments, anp=anp, type=type)


def ANP460Experiment(locations: Any, map: Any, answer: Any, duration: Any) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(locations=locations, map=map, answer=answer, duration=duration)


def ImageClassificationData(key: Any, image: Any, label: Any) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image, label=label)


def ImageCoarseClassificationData(
    key: Any, image: Any, label: Any, coarse_label: Any
) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image, label=label, coarse_label=coarse_label)


def ImageData(key: Any, image: Any) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image)


def ImageDisparitySegmentationData(
    key: Any, image: Any, label_image: Any, disparity_image: Any
) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image, label_image=label_image, disparity_image=disparity_image)


def ImageInstanceSegmentationData(
    key: Any, image: Any, label_image: Any, instance_image: Any
) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image, label_image=label_image, instance_image=instance_image)


def ImageNet21kData(key: Any, image: Any, label: Any, label_tree: Any) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image, label=label, label_tree=label_tree)


def ImageSegmentationData(key: Any, image: Any, label_image: Any) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image, label_image=label_image)


def MaskedImageSegmentationData(
    key: Any, image: Any, label_image: Any, mask: Any
) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image, label_image=label_image, mask=mask)


def Places2017Data(
    key: Any, image: Any, label: Any, label_image: Any, instance_image: Any, boundary: Any
) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(
        key=key,
        image=image,
        label=label,
        label_image=label_image,
        instance_image=instance_image,
        boundary=boundary,
    )


def SaliencyData(key: Any, image: Any, experiments: Any) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(key=key, image=image, experiments=experiments)


def SaliencyExperiment(locations: Any, map: Any) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(locations=locations, map=map)


def SaliencyTimeseriesExperiment(
    locations: Any, map: Any, timestamps: Any, fixations: Any
) -> dict[str, Any]:
    """A dict with these keys."""
    return dict(locations=locations, map=map, timestamps=timestamps, fixations=fixations)
