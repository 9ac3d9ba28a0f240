"""Stores as the online store of Feast. `online_store` needs Feast; the other modules are plain functions without it."""
