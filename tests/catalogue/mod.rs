mod segmentation;
