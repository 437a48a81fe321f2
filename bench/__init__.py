"""Questions asked of Laneway, one file a question; see README.md in this folder."""
