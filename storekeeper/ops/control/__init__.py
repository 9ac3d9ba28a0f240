"""The control API of a platform: jobs beside it, its apps, and what there is to see."""
