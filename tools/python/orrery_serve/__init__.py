"""The local explorer: `orrery serve DIR` shows the runs and studies of a folder in a browser and tries variants."""
