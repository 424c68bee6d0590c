"""The page: every attention of a few sentences in one offline HTML file, to be looked at from all sides."""
